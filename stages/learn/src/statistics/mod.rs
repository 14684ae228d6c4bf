//! Computes evaluation statistics on `f64` slices, so that evaluation, comparison, curricula and reports share one
//! definition of every number.
//!
//! Shares are in [0, 1]. Intervals are 95% and normal unless a file documents otherwise. A value that cannot be
//! estimated is `None`, never 0. Callers must leave out unscored items, because NaN is not a score.

pub mod bootstrap;
pub mod calibration;
pub mod majority;
pub mod pass_at_k;
pub mod pooled;
pub mod proportion;
pub mod ranking;
pub mod selection;

pub use bootstrap::bootstrap_interval;
pub use calibration::{Calibration, brier, calibration};
pub use majority::{Majority, Vote, majority, majority_at_k, weighted_majority_at_k};
pub use pass_at_k::{pass_at_k, pass_hat_k};
pub use pooled::two_level_bootstrap;
pub use proportion::wilson;
pub use ranking::auc;
pub use selection::{StepReduction, best_at_k, best_of};
pub use trainyard_core::statistics::{
    Difference, Estimate, PooledEstimate, Z_95, cluster_means, clustered_mean, deviation, mean, paired_difference,
    student_quantile, variance,
};
