//! Schedules as data: the records of a schedule's log, the state that they add up to, and the next steps. Nothing here
//! has effects.

pub mod decide;
#[cfg(test)]
mod decide_tests;
pub mod event;
pub mod state;
pub mod steps;
