//! Computes mean, variance and standard deviation, summed in index order.

/// Returns the arithmetic mean, or `None` for an empty list.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns Σ (v − mean)² / (n − ddof), or `None` for fewer than two values.
pub fn variance(values: &[f64], ddof: u8) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let n = values.len() as f64;
    let mean = mean(values)?;
    Some(values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - f64::from(ddof)))
}

/// Returns the square root of [`variance`], or `None` for fewer than two values.
pub fn deviation(values: &[f64], ddof: u8) -> Option<f64> {
    variance(values, ddof).map(f64::sqrt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_match_hand_computation() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(variance(&[1.0, 2.0, 6.0], 1), Some(7.0));
        assert_eq!(deviation(&[1.0, 5.0], 0), Some(2.0));
    }

    #[test]
    fn too_few_values_have_no_moments() {
        assert_eq!((mean(&[]), variance(&[1.0], 0), deviation(&[], 0)), (None, None, None));
    }
}
