//! Implements AdamW, gradient clipping and learning-rate schedules.
//!
//! candle's AdamW hides its moments, so it cannot be resumed, and it skips parameters without a gradient. [`AdamW`]
//! keeps its state by parameter name, saves and loads that state, and treats a missing gradient as an error.

mod adamw;
mod gradients;
mod schedule;
#[cfg(test)]
mod tests;

pub(crate) use adamw::not_finite;
pub use adamw::{AdamW, AdamWConfig, StepReport};
pub use gradients::Gradients;
pub use schedule::{Decay, LearningRateSchedule};
