//! Computes maj@k, the correctness of the most frequent answer of k samples (self-consistency, arXiv 2203.11171).
//!
//! Ties do not depend on the order of samples: the value is the expectation over a uniform choice among the tied
//! answers, whose number is returned. Samples without an answer do not vote; without any vote the value is 0. Answers
//! are compared as given, so normalize them first. Votes with equal answers must have equal correctness (debug builds
//! assert it).

use super::mean;
use std::collections::BTreeMap;

/// Vote of one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vote<'a> {
    /// Normalized answer; `None` if the sample has no answer.
    pub answer: Option<&'a str>,
    /// Whether the verifier accepts the answer.
    pub correct: bool,
}

/// Outcome of one vote.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Majority {
    /// Expected correctness under uniform tie breaking.
    pub value: f64,
    /// Number of answers that share first place: 1 = no tie, 0 = no votes.
    pub tied: usize,
    /// Number of votes for each of these answers.
    pub votes: usize,
}

/// Returns the majority of all votes.
pub fn majority(votes: &[Vote<'_>]) -> Majority {
    let mut counts: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    for vote in votes {
        if let Some(answer) = vote.answer {
            let entry = counts.entry(answer).or_insert((0, vote.correct));
            debug_assert_eq!(entry.1, vote.correct, "one vote for `{answer}` is right and another is wrong");
            entry.0 += 1;
        }
    }
    let highest = counts.values().map(|(n, _)| *n).max().unwrap_or(0);
    let first: Vec<bool> = counts.values().filter(|(n, _)| *n == highest).map(|(_, correct)| *correct).collect();
    let right = first.iter().filter(|c| **c).count();
    let value = if first.is_empty() { 0.0 } else { right as f64 / first.len() as f64 };
    Majority { value, tied: first.len(), votes: highest }
}

/// Returns the mean value over the ⌊n/k⌋ disjoint blocks of k consecutive votes, and the share of blocks with a tie.
/// `None` if k = 0 or k > n.
pub fn majority_at_k(votes: &[Vote<'_>], k: usize) -> Option<(f64, f64)> {
    if k == 0 || k > votes.len() {
        return None;
    }
    let outcomes: Vec<Majority> = votes.chunks_exact(k).map(majority).collect();
    let n = outcomes.len() as f64;
    let value = outcomes.iter().map(|m| m.value).sum::<f64>() / n;
    let ties = outcomes.iter().filter(|m| m.tied > 1).count() as f64 / n;
    Some((value, ties))
}

/// Returns the mean value like [`majority_at_k`], but with answers ranked by the sum of their votes' weights (arXiv
/// 2206.02336: scores of a verifier). Equal weights give the same value. `None` if k = 0, k > n, or a weight is
/// negative or NaN.
///
/// # Panics
/// If the lengths differ.
pub fn weighted_majority_at_k(votes: &[Vote<'_>], weights: &[f64], k: usize) -> Option<f64> {
    assert_eq!(votes.len(), weights.len(), "one weight per vote");
    if k == 0 || k > votes.len() || !weights.iter().all(|w| *w >= 0.0) {
        return None;
    }
    let blocks = votes.chunks_exact(k).zip(weights.chunks_exact(k));
    let values: Vec<f64> = blocks.map(|(votes, weights)| weighted_majority(votes, weights)).collect();
    mean(&values)
}

fn weighted_majority(votes: &[Vote<'_>], weights: &[f64]) -> f64 {
    let mut sums: BTreeMap<&str, (f64, bool)> = BTreeMap::new();
    for (vote, weight) in votes.iter().zip(weights) {
        if let Some(answer) = vote.answer {
            sums.entry(answer).or_insert((0.0, vote.correct)).0 += weight;
        }
    }
    let highest = sums.values().map(|(w, _)| *w).fold(0.0, f64::max);
    let first: Vec<bool> = sums.values().filter(|(w, _)| *w == highest).map(|(_, correct)| *correct).collect();
    if first.is_empty() { 0.0 } else { first.iter().filter(|c| **c).count() as f64 / first.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_can_outvote_counts() {
        let v = votes(&["7", "5", "5", ""]);
        assert_eq!(weighted_majority_at_k(&v, &[0.9, 0.4, 0.4, 5.0], 4), Some(1.0));
        assert_eq!(weighted_majority_at_k(&v, &[0.5, 0.25, 0.25, 0.0], 4), Some(0.5), "a tie counts by its share");
        assert_eq!(weighted_majority_at_k(&v, &[1.0; 4], 4), majority_at_k(&v, 4).map(|m| m.0));
        assert_eq!(weighted_majority_at_k(&v, &[1.0, 1.0, f64::NAN, 1.0], 4), None);
        assert_eq!(weighted_majority_at_k(&v, &[0.0; 4], 4), Some(0.5), "without any weight all answers tie");
    }

    fn votes<'a>(answers: &[&'a str]) -> Vec<Vote<'a>> {
        answers.iter().map(|a| Vote { answer: (!a.is_empty()).then_some(*a), correct: *a == "7" }).collect()
    }

    #[test]
    fn clear_majority_wins() {
        assert_eq!(majority(&votes(&["7", "5", "7"])), Majority { value: 1.0, tied: 1, votes: 2 });
        assert_eq!(majority(&votes(&["7", "5", "5"])), Majority { value: 0.0, tied: 1, votes: 2 });
    }

    #[test]
    fn ties_count_by_their_share_and_are_reported() {
        assert_eq!(majority(&votes(&["7", "5"])), Majority { value: 0.5, tied: 2, votes: 1 });
        assert_eq!(majority(&votes(&["1", "2", "7"])), Majority { value: 1.0 / 3.0, tied: 3, votes: 1 });
    }

    #[test]
    fn missing_answers_do_not_vote() {
        assert_eq!(majority(&votes(&["", "", "7"])), Majority { value: 1.0, tied: 1, votes: 1 });
        assert_eq!(majority(&votes(&["", ""])), Majority { value: 0.0, tied: 0, votes: 0 });
    }

    #[test]
    fn order_does_not_matter() {
        let a = majority(&votes(&["5", "7", "7", "5", "1"]));
        let b = majority(&votes(&["7", "1", "5", "5", "7"]));
        assert_eq!(a, b);
    }

    #[test]
    fn blocks_of_k() {
        let v = votes(&["7", "7", "5", "7", "1"]);
        assert_eq!(majority_at_k(&v, 2), Some((0.75, 0.5)));
        assert_eq!((majority_at_k(&v, 6), majority_at_k(&v, 0)), (None, None));
    }
}
