//! Statistics of evaluation, on plain `f64` slices.
//!
//! Why here: evaluation, comparison, level promotion and reports must agree on one definition of every number, and pure
//! functions can be held against hand computations. One file per subject; conventions: shares lie in [0, 1], intervals are 95%
//! and normal unless the file says otherwise, and what cannot be estimated is `None`, never 0. Refuses: NaN as a score (leave
//! unscored items out before), ambient chance (the bootstrap takes a [`trainyard_core::Chance`]).

pub mod bootstrap;
pub mod calibration;
pub mod clustered;
pub mod majority;
pub mod pass_at_k;
pub mod proportion;
pub mod ranking;
pub mod selection;

pub use bootstrap::bootstrap_interval;
pub use calibration::{Calibration, brier, calibration};
pub use clustered::{Difference, Estimate, cluster_means, clustered_mean, mean, paired_difference};
pub use majority::{Majority, Vote, majority, majority_at_k, weighted_majority_at_k};
pub use pass_at_k::{pass_at_k, pass_hat_k};
pub use proportion::wilson;
pub use ranking::auc;
pub use selection::{StepReduction, best_at_k, best_of};

/// The 97.5% quantile of the standard normal distribution.
pub const Z_95: f64 = 1.959_963_984_540_054;
