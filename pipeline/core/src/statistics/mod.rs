//! Computes means, paired differences and their intervals on `f64` slices, so that evaluation, comparison, reports and
//! pages share one definition of every number.
//!
//! Intervals are 95% and normal unless a file documents otherwise. A value that cannot be estimated is `None`, never 0.
//! Callers must leave out unscored items, because NaN is not a score.

pub mod clustered;
pub mod moments;
pub mod pooled;

pub use clustered::{Difference, Estimate, cluster_means, clustered_mean, paired_difference};
pub use moments::{deviation, mean, variance};
pub use pooled::{PooledEstimate, student_quantile};

/// 97.5% quantile of the standard normal distribution.
pub const Z_95: f64 = 1.959_963_984_540_054;
