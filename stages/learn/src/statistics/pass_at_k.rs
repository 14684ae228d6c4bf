//! Computes pass@k and pass^k from n samples of which c are correct (Chen et al., arXiv 2107.03374; tau-bench, arXiv
//! 2406.12045).
//!
//! The mean over all k-subsets of the n samples is an unbiased estimate with less variance than k samples alone. The
//! code multiplies ratios, because binomial coefficients would overflow. k = 0, k > n and c > n give `None`.

/// Returns the probability that at least one of k samples is correct: 1 − C(n − c, k) / C(n, k).
pub fn pass_at_k(n: usize, c: usize, k: usize) -> Option<f64> {
    valid(n, c, k)?;
    if n - c < k {
        return Some(1.0);
    }
    let all_wrong: f64 = (n - c + 1..=n).map(|i| 1.0 - k as f64 / i as f64).product();
    Some(1.0 - all_wrong)
}

/// Returns the probability that all of k samples are correct (pass^k): C(c, k) / C(n, k).
pub fn pass_hat_k(n: usize, c: usize, k: usize) -> Option<f64> {
    valid(n, c, k)?;
    if c < k {
        return Some(0.0);
    }
    Some((0..k).map(|i| (c - i) as f64 / (n - i) as f64).product())
}

fn valid(n: usize, c: usize, k: usize) -> Option<()> {
    (k >= 1 && k <= n && c <= n).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the share of k-subsets of n samples (the first c correct) that `hit` accepts.
    fn enumerate(n: usize, c: usize, k: usize, hit: fn(usize, usize) -> bool) -> f64 {
        let (mut hits, mut all) = (0.0, 0.0);
        for set in 0u32..1 << n {
            if set.count_ones() as usize == k {
                all += 1.0;
                let right = (set & ((1 << c) - 1)).count_ones() as usize;
                hits += f64::from(u8::from(hit(right, k)));
            }
        }
        hits / all
    }

    #[test]
    fn both_agree_with_enumerating_subsets() {
        for n in 1..=8 {
            for c in 0..=n {
                for k in 1..=n {
                    let at = pass_at_k(n, c, k).unwrap();
                    let hat = pass_hat_k(n, c, k).unwrap();
                    assert!((at - enumerate(n, c, k, |r, _| r > 0)).abs() < 1e-12, "pass@{k} of {c}/{n}");
                    assert!((hat - enumerate(n, c, k, |r, k| r == k)).abs() < 1e-12, "pass^{k} of {c}/{n}");
                    assert!(hat <= at + 1e-15);
                }
            }
        }
    }

    #[test]
    fn values_match_hand_computation() {
        assert_eq!(pass_at_k(8, 0, 8), Some(0.0));
        assert_eq!(pass_at_k(8, 1, 8), Some(1.0));
        assert!((pass_at_k(4, 1, 2).unwrap() - 0.5).abs() < 1e-15);
        assert!((pass_hat_k(4, 2, 2).unwrap() - 1.0 / 6.0).abs() < 1e-15);
        assert_eq!((pass_at_k(3, 1, 4), pass_at_k(3, 4, 1), pass_at_k(3, 1, 0)), (None, None, None));
    }

    #[test]
    fn large_counts_do_not_overflow() {
        let p = pass_at_k(1_000, 3, 500).unwrap();
        assert!((p - (1.0 - 500.0 * 499.0 * 498.0 / (1_000.0 * 999.0 * 998.0))).abs() < 1e-12, "{p}");
    }
}
