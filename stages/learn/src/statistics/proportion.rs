//! Computes the Wilson score interval of a proportion (Wilson 1927), which is accurate near 0 and 1, unlike the normal
//! interval.
//!
//! The center is (p + z²/2n) / (1 + z²/n), the half-width z/(1 + z²/n) · √(p(1−p)/n + z²/4n²). The formula assumes
//! independent trials: one per problem.

use super::Z_95;

/// Returns the 95% interval of `successes` in `n` trials; `None` if n = 0 or successes > n.
pub fn wilson(successes: usize, n: usize) -> Option<(f64, f64)> {
    if n == 0 || successes > n {
        return None;
    }
    let (n_, z2) = (n as f64, Z_95 * Z_95);
    let p = successes as f64 / n_;
    let center = p + z2 / (2.0 * n_);
    let half = Z_95 * (p * (1.0 - p) / n_ + z2 / (4.0 * n_ * n_)).sqrt();
    let scale = 1.0 + z2 / n_;
    let low = if successes == 0 { 0.0 } else { (center - half) / scale };
    let high = if successes == n { 1.0 } else { (center + half) / scale };
    Some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // 8 of 10: (0.8 + 0.19207) ± 1.95996·√(0.016 + 0.0096036), over 1.384146.
        let (low, high) = wilson(8, 10).unwrap();
        assert!((low - 0.490_16).abs() < 1e-4 && (high - 0.943_32).abs() < 1e-4, "{low} {high}");
        let (low, high) = wilson(0, 10).unwrap();
        assert!(low == 0.0 && (high - 0.277_53).abs() < 1e-4, "{high}");
        assert_eq!((wilson(1, 0), wilson(2, 1)), (None, None));
    }

    #[test]
    fn interval_is_symmetric_and_contains_the_share() {
        for n in 1..30 {
            for s in 0..=n {
                let (low, high) = wilson(s, n).unwrap();
                let (mirror_low, mirror_high) = wilson(n - s, n).unwrap();
                assert!((low - (1.0 - mirror_high)).abs() < 1e-12 && (high - (1.0 - mirror_low)).abs() < 1e-12);
                let p = s as f64 / n as f64;
                assert!(low <= p && p <= high && (0.0..=1.0).contains(&low) && (0.0..=1.0).contains(&high));
            }
        }
    }
}
