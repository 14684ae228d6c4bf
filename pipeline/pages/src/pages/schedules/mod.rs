//! Schedules: their list, the page of one with its calendar and ticks, and the forms that change one.

mod calendar;
mod changes;
mod list;
mod show;
#[cfg(test)]
mod tests;
mod ticks;
mod words;

pub use changes::{backfill, cancel_backfill, pause, resume, trigger};
pub use list::list;
pub use show::show;
