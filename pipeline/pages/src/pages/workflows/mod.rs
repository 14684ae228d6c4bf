//! Workflow files of the daemon's folder: their list, and the page of one with its plan and a form of its params.

mod fields;
mod list;
mod show;
mod start;
#[cfg(test)]
mod tests;

pub use list::list;
pub use show::show;
pub use start::start;
