//! Pools values of training seeds: their mean with Student's t interval over seeds.
//!
//! Problems of one seed share one pair of trained policies, so the seed is the unit of replication.

use super::{deviation, mean};

/// Mean over seeds and its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PooledEstimate {
    /// Mean of the seeds' values.
    pub value: f64,
    /// Standard deviation between seeds (ddof 1); `None` with fewer than two seeds.
    pub deviation: Option<f64>,
    /// Number of seeds.
    pub seeds: usize,
}

impl PooledEstimate {
    /// Pools one value per seed. `None` if empty.
    pub fn of(values: &[f64]) -> Option<Self> {
        Some(Self { value: mean(values)?, deviation: deviation(values, 1), seeds: values.len() })
    }

    /// Returns the two-sided t interval that leaves `tail` on either side: 0.025 gives the 95% interval, 0.05 the
    /// one-sided 95% bounds. `None` with fewer than two seeds.
    pub fn interval(&self, tail: f64) -> Option<(f64, f64)> {
        let half = student_quantile(1.0 - tail, self.seeds as u32 - 1)? * self.deviation? / (self.seeds as f64).sqrt();
        Some((self.value - half, self.value + half))
    }
}

/// Returns the quantile of Student's t distribution: the t with P(T ≤ t) = `probability`, for a probability in (0.5,
/// 1).
///
/// Bisects the closed form for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4). `None` without a
/// degree of freedom.
pub fn student_quantile(probability: f64, degrees: u32) -> Option<f64> {
    if degrees == 0 || !(0.5..1.0).contains(&probability) {
        return None;
    }
    let central = 2.0 * probability - 1.0;
    let (mut low, mut high) = (0.0, 1.0);
    while student_central(high, degrees) < central {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if student_central(middle, degrees) < central { low = middle } else { high = middle }
    }
    Some(f64::midpoint(low, high))
}

/// Returns P(|T| ≤ t) of Student's t distribution.
fn student_central(t: f64, degrees: u32) -> f64 {
    let angle = (t / f64::from(degrees).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    // Σ of cosᵏ with the products of odd over even numbers, or the other way round, up to k = degrees − 2.
    let series = |first: u32| {
        let (mut term, mut sum, mut k) = (if first == 1 { cosine } else { 1.0 }, 0.0, first);
        while k + 2 <= degrees {
            sum += term;
            term *= cosine * cosine * f64::from(k + 1) / f64::from(k + 2);
            k += 2;
        }
        sum
    };
    if degrees % 2 == 1 { std::f64::consts::FRAC_2_PI * (angle + sine * series(1)) } else { sine * series(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_published_tables() {
        let table = [
            (0.975, 1, 12.7062),
            (0.975, 2, 4.3027),
            (0.975, 3, 3.1824),
            (0.975, 4, 2.7764),
            (0.95, 4, 2.1318),
            (0.975, 9, 2.2622),
            (0.975, 30, 2.0423),
            (0.95, 2, 2.9200),
            (0.975, 1000, 1.9623),
        ];
        for (probability, degrees, expected) in table {
            let found = student_quantile(probability, degrees).unwrap();
            assert!((found - expected).abs() < 6e-5, "{degrees}: {found} against {expected}");
        }
        assert_eq!(
            (student_quantile(0.975, 0), student_quantile(1.0, 3), student_quantile(0.4, 3)),
            (None, None, None)
        );
    }

    #[test]
    fn the_interval_is_the_t_interval_over_seeds() {
        // Mean 0.2, deviation 0.1, n = 3: 0.2 ± 4.3027·0.1/√3.
        let pooled = PooledEstimate::of(&[0.1, 0.2, 0.3]).unwrap();
        let (low, high) = pooled.interval(0.025).unwrap();
        let half = 4.302_652_73 * 0.1 / 3f64.sqrt();
        assert!((pooled.value - 0.2).abs() < 1e-12);
        assert!((low - (0.2 - half)).abs() < 1e-8 && (high - (0.2 + half)).abs() < 1e-8, "{low} {high}");
        assert!(pooled.interval(0.05).unwrap().0 > low, "one-sided bounds lie inside");
        let one = PooledEstimate::of(&[0.4]).unwrap();
        assert_eq!((one.value, one.interval(0.025), PooledEstimate::of(&[])), (0.4, None, None));
    }
}
