//! Compares models: their samples of one problem next to each other, the problems on which their verdicts differ, and
//! their paired differences.
//!
//! The models are those of an evaluation, or the trajectories of one artifact each. [`load`] reads the samples once;
//! the rest is computed from them, and reads only the trajectories and messages that are shown.

mod differences;
mod flip_page;
mod flips;
mod problem;
mod samples;

pub use differences::{PairedDifference, paired_differences};
pub use flip_page::{FlipPage, FlipQuery, FlipRow, flip_page};
pub use flips::{Flip, FlippedAnswers, Flips, flips};
pub use problem::{ComparedModel, ProblemComparison, RolloutPlace, problem};
pub use samples::{ComparedArtifacts, DrawnSamples, ModelSamples, Sample, TrajectoryTable, load};
