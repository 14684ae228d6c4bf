//! From rewards to a number per token. One file per form; the list is in [`crate::registry`].

pub mod discounted_return;
pub mod gae;
pub mod gdpo;
pub mod group;
pub mod information_gain;
pub mod opo;
pub mod stratified;

pub use discounted_return::DiscountedReturn;
pub use gae::Gae;
pub use gdpo::Gdpo;
pub use group::Group;
pub use information_gain::InformationGain;
pub use opo::Opo;
pub use stratified::Stratified;

use trainyard_core::OptionProblem;

/// Refuses a divisor or an epsilon that no standard deviation has.
fn deviation_options(ddof: u8, epsilon: f64) -> Vec<OptionProblem> {
    [OptionProblem::outside("/ddof", ddof, 0..=1), OptionProblem::outside("/epsilon", epsilon, 0.0..)]
        .into_iter()
        .flatten()
        .collect()
}

/// 0 for no values.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The mean, and the standard deviation plus epsilon; fewer than two values have no spread: their divisor is 1.
fn moments(values: &[f64], ddof: u8, epsilon: f64) -> (f64, f64) {
    (mean(values), group::deviation(values, ddof).map_or(1.0, |d| d + epsilon))
}

/// (value − mean) / divisor. Equal values without epsilon give 0/0, which is 0 here.
fn standard(value: f64, (mean, divisor): (f64, f64)) -> f64 {
    let z = (value - mean) / divisor;
    if z.is_nan() { 0.0 } else { z }
}

/// Every value against the others: (v − mean) / (std + epsilon).
fn standardize(values: &[f64], ddof: u8, epsilon: f64) -> Vec<f64> {
    let moments = moments(values, ddof, epsilon);
    values.iter().map(|&v| standard(v, moments)).collect()
}
