//! Implements advantages, which convert the rewards of rollouts to one number per token.

pub mod discounted_return;
pub mod gae;
pub mod gdpo;
pub mod group;
pub mod information_gain;
pub mod opo;
pub mod stratified;

use crate::statistics;
use trainyard_core::OptionProblem;

/// Checks the options of a standard deviation.
fn deviation_options(ddof: u8, epsilon: f64) -> Vec<OptionProblem> {
    [OptionProblem::out_of_range("/ddof", ddof, 0..=1), OptionProblem::out_of_range("/epsilon", epsilon, 0.0..)]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns the mean, or 0 for an empty list.
fn mean(values: &[f64]) -> f64 {
    statistics::mean(values).unwrap_or(0.0)
}

/// Returns the mean and a divisor: the standard deviation plus epsilon, or 1 for fewer than two values.
fn moments(values: &[f64], ddof: u8, epsilon: f64) -> (f64, f64) {
    (mean(values), statistics::deviation(values, ddof).map_or(1.0, |d| d + epsilon))
}

/// Returns (value − mean) / divisor, where 0/0 (equal values without epsilon) is 0.
fn standard(value: f64, (mean, divisor): (f64, f64)) -> f64 {
    let z = (value - mean) / divisor;
    if z.is_nan() { 0.0 } else { z }
}

/// Returns (v − mean) / (std + epsilon) of every value.
fn standardize(values: &[f64], ddof: u8, epsilon: f64) -> Vec<f64> {
    let moments = moments(values, ddof, epsilon);
    values.iter().map(|&v| standard(v, moments)).collect()
}
