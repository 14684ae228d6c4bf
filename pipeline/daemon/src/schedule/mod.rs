//! Defines schedules as data: the records of a schedule's log, the state that results from them, and the next steps.
//! All functions of this module are free of effects.

pub mod decide;
#[cfg(test)]
mod decide_tests;
pub mod event;
pub mod state;
pub mod steps;
