//! Schedules as data: the records of a schedule's log, what they add up to, and what is to be done about it. Nothing
//! here does anything.

pub mod decide;
#[cfg(test)]
mod decide_tests;
pub mod event;
pub mod state;
pub mod steps;
