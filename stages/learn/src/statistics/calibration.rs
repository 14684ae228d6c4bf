//! Measures the calibration of predicted probabilities: expected calibration error over equal-width bins (arXiv
//! 1706.04599) and the Brier score.
//!
//! Bin b of B contains the predictions in [b/B, (b+1)/B), and the last bin also 1. ECE = Σ_b n_b/n · |share of correct
//! labels − mean prediction|. Labels may be soft (Monte-Carlo shares). Empty input and predictions outside [0, 1] give
//! `None`.

/// Bin of the reliability table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// Lower bound, inclusive.
    pub low: f64,
    /// Upper bound, exclusive except for the last bin.
    pub high: f64,
    /// Number of predictions in the bin.
    pub n: usize,
    /// Mean prediction; 0 in an empty bin.
    pub predicted: f64,
    /// Mean label; 0 in an empty bin.
    pub observed: f64,
}

/// Expected calibration error with its bins.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Expected calibration error.
    pub ece: f64,
    /// The bins, in order.
    pub bins: Vec<Bin>,
}

/// Computes the ECE over `bins` equal-width bins. `None` for empty input or predictions outside [0, 1].
///
/// # Panics
/// If the lengths differ or `bins` is 0.
pub fn calibration(predictions: &[f64], labels: &[f64], bins: usize) -> Option<Calibration> {
    assert!(bins > 0, "at least one bin");
    if !valid(predictions, labels) {
        return None;
    }
    let mut sums = vec![(0usize, 0.0, 0.0); bins];
    for (p, y) in predictions.iter().zip(labels) {
        let bin = &mut sums[((p * bins as f64) as usize).min(bins - 1)];
        bin.0 += 1;
        bin.1 += p;
        bin.2 += y;
    }
    let table: Vec<Bin> = sums
        .iter()
        .enumerate()
        .map(|(b, (n, p, y))| {
            let share = |x: &f64| if *n == 0 { 0.0 } else { x / *n as f64 };
            Bin {
                low: b as f64 / bins as f64,
                high: (b + 1) as f64 / bins as f64,
                n: *n,
                predicted: share(p),
                observed: share(y),
            }
        })
        .collect();
    let total = predictions.len() as f64;
    let ece = table.iter().map(|b| b.n as f64 / total * (b.observed - b.predicted).abs()).sum();
    Some(Calibration { ece, bins: table })
}

/// Computes the mean squared difference between prediction and label. `None` for empty input or predictions outside [0,
/// 1].
///
/// # Panics
/// If the lengths differ.
pub fn brier(predictions: &[f64], labels: &[f64]) -> Option<f64> {
    valid(predictions, labels)
        .then(|| predictions.iter().zip(labels).map(|(p, y)| (p - y) * (p - y)).sum::<f64>() / predictions.len() as f64)
}

fn valid(predictions: &[f64], labels: &[f64]) -> bool {
    assert_eq!(predictions.len(), labels.len(), "one label per prediction");
    !predictions.is_empty() && predictions.iter().chain(labels).all(|x| (0.0..=1.0).contains(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ece_matches_hand_computation() {
        // Bin [0, .5): .2 and .4, labels 0 and 1 → |.5 − .3| = .2, weight 2/4.
        // Bin [.5, 1]: .8 and 1, labels 1 and 1 → .1, weight 2/4.
        let c = calibration(&[0.2, 0.4, 0.8, 1.0], &[0.0, 1.0, 1.0, 1.0], 2).unwrap();
        assert!((c.ece - 0.15).abs() < 1e-12);
        assert_eq!((c.bins[0].n, c.bins[1].n), (2, 2));
        assert!((brier(&[0.2, 0.4, 0.8, 1.0], &[0.0, 1.0, 1.0, 1.0]).unwrap() - 0.11).abs() < 1e-12);
    }

    #[test]
    fn perfect_predictions_have_no_error_and_empty_bins_do_not_count() {
        let c = calibration(&[0.0, 1.0], &[0.0, 1.0], 10).unwrap();
        assert_eq!(c.ece, 0.0);
        assert_eq!(c.bins.iter().filter(|b| b.n == 0).count(), 8);
    }

    #[test]
    fn invalid_probabilities_give_none() {
        assert_eq!(brier(&[1.2], &[1.0]), None);
        assert_eq!(brier(&[f64::NAN], &[1.0]), None);
        assert!(calibration(&[], &[], 10).is_none());
    }
}
