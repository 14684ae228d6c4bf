//! Computes means with clustered standard errors, and paired differences (Miller, arXiv 2411.00640).
//!
//! Samples of one problem are not independent, so an interval that treats them as independent is too narrow. With
//! residuals r_i = s_i − s̄, n values and clusters c:
//!
//! ```text
//! SE²_CLT       = Σ r_i² / (n (n − 1))
//! SE²_clustered = SE²_CLT + n⁻² Σ_c Σ_{i≠j∈c} r_i r_j
//!               = n⁻² [Σ_c (Σ_{i∈c} r_i)² + Σ r_i² / (n − 1)]
//! SE²_paired    = SE²_A + SE²_B − 2 Cov(A, B)            =  SE² of the differences a_i − b_i
//! ```
//!
//! The right-hand forms are sums of squares, so rounding never makes a variance negative. With one value or one cluster
//! no error can be estimated, and the interval is `None`.

use super::{Z_95, mean};
use std::collections::BTreeMap;

/// Mean and its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Mean of the values.
    pub value: f64,
    /// Standard error; `None` with fewer than two clusters.
    pub standard_error: Option<f64>,
    /// Number of values.
    pub n: usize,
    /// Number of clusters.
    pub clusters: usize,
}

impl Estimate {
    /// Returns value ± 1.96 SE, not limited to [0, 1]; for a single proportion near an end use Wilson's interval.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.standard_error.map(|se| (self.value - Z_95 * se, self.value + Z_95 * se))
    }
    /// Returns the interval of a mean of counts, which cannot be below 0: value · exp(± 1.96 SE / value), the normal
    /// interval of its logarithm by the delta method. `None` if the value is 0, since counts of 0 alone have no
    /// information about their spread.
    pub fn positive_interval(&self) -> Option<(f64, f64)> {
        let se = self.standard_error.filter(|_| self.value > 0.0)?;
        let factor = (Z_95 * se / self.value).exp();
        Some((self.value / factor, self.value * factor))
    }
}

/// Computes the mean of `values` with its standard error clustered by `clusters` (any labels, same length). `None` if
/// empty.
///
/// # Panics
/// If the lengths differ.
pub fn clustered_mean<K: Ord>(values: &[f64], clusters: &[K]) -> Option<Estimate> {
    assert_eq!(values.len(), clusters.len(), "one cluster label per value");
    let value = mean(values)?;
    let n = values.len();
    let mut sums: BTreeMap<&K, f64> = BTreeMap::new();
    let mut squares = 0.0;
    for (v, c) in values.iter().zip(clusters) {
        let residual = v - value;
        squares += residual * residual;
        *sums.entry(c).or_insert(0.0) += residual;
    }
    let standard_error = (sums.len() > 1).then(|| {
        let between: f64 = sums.values().map(|s| s * s).sum();
        (between + squares / (n as f64 - 1.0)).sqrt() / n as f64
    });
    Some(Estimate { value, standard_error, n, clusters: sums.len() })
}

/// Computes the mean within each cluster, by label. With K samples per problem, call this first: every problem then
/// counts once.
///
/// # Panics
/// If the lengths differ.
pub fn cluster_means<K: Ord + Clone>(values: &[f64], clusters: &[K]) -> BTreeMap<K, f64> {
    assert_eq!(values.len(), clusters.len(), "one cluster label per value");
    let mut sums: BTreeMap<K, (f64, f64)> = BTreeMap::new();
    for (v, c) in values.iter().zip(clusters) {
        let entry = sums.entry(c.clone()).or_insert((0.0, 0.0));
        entry.0 += v;
        entry.1 += 1.0;
    }
    sums.into_iter().map(|(c, (sum, n))| (c, sum / n)).collect()
}

/// Paired comparison of two models on the same items.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Mean of the first model.
    pub a: f64,
    /// Mean of the second model.
    pub b: f64,
    /// Mean of a − b with its paired, clustered standard error.
    pub difference: Estimate,
}

/// Computes the mean difference a − b of matched items, clustered by `clusters` (all of one length). `None` if empty.
///
/// # Panics
/// If the lengths differ.
pub fn paired_difference<K: Ord>(a: &[f64], b: &[f64], clusters: &[K]) -> Option<Difference> {
    assert_eq!(a.len(), b.len(), "paired values");
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    Some(Difference { a: mean(a)?, b: mean(b)?, difference: clustered_mean(&differences, clusters)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} against {b}");
    }

    #[test]
    fn singleton_clusters_give_the_ordinary_standard_error() {
        // 1, 0, 1, 1: mean 3/4, Σr² = 3/4, SE² = (3/4)/(4·3) = 1/16.
        let e = clustered_mean(&[1.0, 0.0, 1.0, 1.0], &[0, 1, 2, 3]).unwrap();
        close(e.value, 0.75);
        close(e.standard_error.unwrap(), 0.25);
        close(e.interval().unwrap().0, 0.75 - 0.25 * Z_95);
    }

    #[test]
    fn clustered_error_matches_hand_computation() {
        // Clusters {1, 1} and {0, 0}: mean 1/2, r = ±1/2, cluster sums ±1, so Σ_c = 2, Σr²/(n−1) = 1/3, SE² =
        // (7/3)/16.
        let e = clustered_mean(&[1.0, 1.0, 0.0, 0.0], &["a", "a", "b", "b"]).unwrap();
        close(e.standard_error.unwrap().powi(2), 7.0 / 48.0);
        // The paper's form of the same number: 1/(4·3) + (2·(1/4)·2)/16.
        close(e.standard_error.unwrap().powi(2), 1.0 / 12.0 + 1.0 / 16.0);
        assert_eq!((e.n, e.clusters), (4, 2));
    }

    #[test]
    fn intervals_of_counts_stay_above_0() {
        let counts: Vec<f64> = (0..40).map(|i| f64::from(u8::from(i == 7)) * 3.0).collect();
        let ids: Vec<usize> = (0..40).collect();
        let e = clustered_mean(&counts, &ids).unwrap();
        assert!(e.interval().unwrap().0 < 0.0);
        let (low, high) = e.positive_interval().unwrap();
        assert!(0.0 < low && low < e.value && e.value < high);
        close(low * high, e.value * e.value);
        assert_eq!(clustered_mean(&[0.0, 0.0], &[1, 2]).unwrap().positive_interval(), None);
        // Far from 0 both intervals agree.
        let e = clustered_mean(&[100.0, 101.0, 99.0, 100.0], &[1, 2, 3, 4]).unwrap();
        assert!((e.interval().unwrap().1 - e.positive_interval().unwrap().1).abs() < 0.01);
    }

    #[test]
    fn one_cluster_has_no_interval_and_nothing_has_no_mean() {
        assert_eq!(clustered_mean(&[1.0, 0.0], &[5, 5]).unwrap().interval(), None);
        assert!(clustered_mean::<u8>(&[], &[]).is_none() && mean(&[]).is_none());
    }

    #[test]
    fn cluster_means_count_every_problem_once() {
        let means = cluster_means(&[1.0, 0.0, 1.0, 1.0, 1.0], &[1, 1, 2, 2, 2]);
        assert_eq!(means.into_iter().collect::<Vec<_>>(), [(1, 0.5), (2, 1.0)]);
    }

    #[test]
    fn paired_error_matches_the_paper() {
        let a = [1.0, 0.0, 1.0, 1.0, 0.0];
        let b = [1.0, 0.0, 0.0, 1.0, 1.0];
        let ids = [0, 1, 2, 3, 4];
        let d = paired_difference(&a, &b, &ids).unwrap();
        let (ea, eb) = (clustered_mean(&a, &ids).unwrap(), clustered_mean(&b, &ids).unwrap());
        let n = 5.0;
        let covariance = a.iter().zip(&b).map(|(x, y)| (x - ea.value) * (y - eb.value)).sum::<f64>() / (n * (n - 1.0));
        let expected = ea.standard_error.unwrap().powi(2) + eb.standard_error.unwrap().powi(2) - 2.0 * covariance;
        close(d.difference.standard_error.unwrap().powi(2), expected);
        close(d.difference.value, d.a - d.b);
    }

    #[test]
    fn equal_arms_differ_by_exactly_zero() {
        let d = paired_difference(&[0.3, 0.7, 1.0], &[0.3, 0.7, 1.0], &[1, 2, 3]).unwrap();
        assert_eq!((d.difference.value, d.difference.standard_error), (0.0, Some(0.0)));
    }
}
