//! Computes evaluation statistics on `f64` slices, so that evaluation, comparison, curricula and reports share one
//! definition of every number.
//!
//! Shares are in [0, 1]. Intervals are 95% and normal unless a file documents otherwise. A value that cannot be
//! estimated is `None`, never 0. Callers must leave out unscored items, because NaN is not a score.

pub mod bootstrap;
pub mod calibration;
pub mod clustered;
pub mod majority;
pub mod moments;
pub mod pass_at_k;
pub mod pooled;
pub mod proportion;
pub mod ranking;
pub mod selection;

pub use bootstrap::bootstrap_interval;
pub use calibration::{Calibration, brier, calibration};
pub use clustered::{Difference, Estimate, cluster_means, clustered_mean, paired_difference};
pub use majority::{Majority, Vote, majority, majority_at_k, weighted_majority_at_k};
pub use moments::{deviation, mean, variance};
pub use pass_at_k::{pass_at_k, pass_hat_k};
pub use pooled::{PooledEstimate, student_quantile, two_level_bootstrap};
pub use proportion::wilson;
pub use ranking::auc;
pub use selection::{StepReduction, best_at_k, best_of};

/// 97.5% quantile of the standard normal distribution.
pub const Z_95: f64 = 1.959_963_984_540_054;
