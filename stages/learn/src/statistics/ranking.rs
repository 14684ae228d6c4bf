//! Computes the AUC, the probability that a random positive has a higher score than a random negative (Mann–Whitney);
//! ties count one half.
//!
//! By midranks, AUC = (Σ ranks of positives − P(P+1)/2) / (P·N), in O(n log n). The AUC is `None` with only one class
//! or a NaN score.

/// Computes the area under the ROC curve. `None` with only one class or a NaN score.
///
/// # Panics
/// If the lengths differ.
pub fn auc(scores: &[f64], positive: &[bool]) -> Option<f64> {
    assert_eq!(scores.len(), positive.len(), "one label per score");
    let positives = positive.iter().filter(|p| **p).count() as f64;
    let negatives = positive.len() as f64 - positives;
    if positives == 0.0 || negatives == 0.0 || scores.iter().any(|s| s.is_nan()) {
        return None;
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let mut rank_sum = 0.0;
    let mut low = 0;
    while low < order.len() {
        let score = scores[order[low]];
        let high = low + order[low..].iter().take_while(|i| scores[**i] == score).count();
        // Equal scores on ranks low+1 ..= high share their mean rank.
        let midrank = (low + 1 + high) as f64 / 2.0;
        rank_sum += midrank * order[low..high].iter().filter(|i| positive[**i]).count() as f64;
        low = high;
    }
    Some((rank_sum - positives * (positives + 1.0) / 2.0) / (positives * negatives))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_pairs(scores: &[f64], positive: &[bool]) -> f64 {
        let (mut sum, mut pairs) = (0.0, 0.0);
        for i in 0..scores.len() {
            for j in 0..scores.len() {
                if positive[i] && !positive[j] {
                    pairs += 1.0;
                    sum += if scores[i] > scores[j] {
                        1.0
                    } else if scores[i] == scores[j] {
                        0.5
                    } else {
                        0.0
                    };
                }
            }
        }
        sum / pairs
    }

    #[test]
    fn perfect_reversed_and_constant() {
        let labels = [false, false, true, true];
        assert_eq!(auc(&[0.1, 0.2, 0.3, 0.4], &labels), Some(1.0));
        assert_eq!(auc(&[0.4, 0.3, 0.2, 0.1], &labels), Some(0.0));
        assert_eq!(auc(&[0.5; 4], &labels), Some(0.5));
        assert_eq!(auc(&[0.5; 2], &[true, true]), None);
        assert_eq!(auc(&[f64::NAN, 0.0], &[true, false]), None);
    }

    #[test]
    fn agrees_with_counting_pairs() {
        let mut draws = trainyard_core::Chance::new(5).at("auc", &[]);
        for _ in 0..50 {
            let scores: Vec<f64> = (0..40).map(|_| draws.below(8) as f64).collect();
            let mut labels: Vec<bool> = (0..40).map(|_| draws.below(2) == 1).collect();
            (labels[0], labels[1]) = (true, false);
            assert!((auc(&scores, &labels).unwrap() - by_pairs(&scores, &labels)).abs() < 1e-12);
        }
    }
}
