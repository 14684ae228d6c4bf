//! AdamW, gradient clipping and learning-rate schedules.
//!
//! Why so: candle's own AdamW hides its moments, so it cannot be resumed, and it skips parameters without a gradient. This one
//! keeps its state by parameter name, saves and loads it, and treats a missing gradient as a mistake. Refuses: gradients that
//! are missing, misshapen or not finite (with the parameter's name).

mod adamw;
mod gradients;
mod schedule;
#[cfg(test)]
mod tests;

pub use adamw::{AdamW, AdamWConfig, StepReport};
pub use gradients::Gradients;
pub use schedule::{Decay, Schedule};
