use super::*;
use crate::losses::differences::{assert_gradients, batch};

/// Returns one-token sequences with these logprobs; the reference is −1 everywhere.
fn tokens(logprobs: &[f64], groups: &[usize], rewards: &[f64]) -> LossBatch {
    let n = logprobs.len();
    LossBatch {
        mask: vec![vec![true]; n],
        logprobs: logprobs.iter().map(|l| vec![*l]).collect(),
        reference: Some(vec![vec![-1.0]; n]),
        weights: vec![vec![1.0 / n as f64]; n],
        groups: groups.to_vec(),
        rewards: rewards.to_vec(),
        ..LossBatch::default()
    }
}

#[test]
fn loss_matches_hand_computation() {
    // Gains 0.5 and −0.5, beta 2: margin 2.
    let b = tokens(&[-0.5, -1.5], &[7, 7], &[1.0, 0.0]);
    let part = GroupDpo { beta: 2.0, weight: 3.0, ..GroupDpo::default() };
    let term = part.value(&b);
    let sigma = 1.0 / (1.0 + 2f64.exp());
    assert!((term.loss - 3.0 * (1.0 + (-2f64).exp()).ln()).abs() < 1e-12);
    assert!((term.d_logprobs[0][0] + 3.0 * 2.0 * sigma).abs() < 1e-12);
    assert!((term.d_logprobs[1][0] - 3.0 * 2.0 * sigma).abs() < 1e-12);
    assert_eq!(term.sums, [("pairs", 2.0), ("accuracy", 2.0)], "one pair, in order, times two tokens");
    let reversed = part.value(&tokens(&[-0.5, -1.5], &[7, 7], &[0.0, 1.0]));
    assert_eq!(reversed.sums[1], ("accuracy", 0.0));
    assert!((reversed.loss - term.loss - 3.0 * 2.0).abs() < 1e-12, "softplus(m) − softplus(−m) = m");
}

#[test]
fn extremes_are_the_first_best_and_first_worst() {
    let b = tokens(&[-1.0; 7], &[0, 0, 1, 0, 1, 0, 2], &[0.5, 1.0, 2.0, 1.0, 2.0, 0.5, 9.0]);
    assert_eq!(GroupDpo::default().pairs_of(&b), [(1, 0)], "group 1 has equal rewards, group 2 a single rollout");
    let all = GroupDpo { pairs: PairSelection::All, ..GroupDpo::default() };
    assert_eq!(all.pairs_of(&b), [(1, 0), (1, 5), (3, 0), (3, 5)]);
}

#[test]
fn rollouts_without_tokens_in_the_loss_form_no_pairs() {
    let mut b = tokens(&[-1.0; 3], &[0, 0, 0], &[1.0, 0.5, 0.0]);
    b.mask[2] = vec![false];
    assert_eq!(GroupDpo::default().pairs_of(&b), [(0, 1)]);
}

#[test]
fn loss_is_log_two_at_the_reference_and_zero_without_pairs() {
    let at = |rewards: &[f64]| GroupDpo::default().value(&tokens(&[-1.0, -1.0], &[0, 0], rewards));
    assert!((at(&[1.0, 0.0]).loss - 2f64.ln()).abs() < 1e-12);
    let none = at(&[1.0, 1.0]);
    assert_eq!((none.loss, none.d_logprobs, none.sums), (0.0, vec![vec![0.0]; 2], vec![("pairs", 0.0)]));
}

#[test]
fn acts_in_every_nth_step() {
    let b = tokens(&[-0.5, -1.5], &[0, 0], &[1.0, 0.0]);
    let mut part = GroupDpo { every: 3, ..GroupDpo::default() };
    assert_eq!(part.value(&b).loss, 0.0, "no step has begun");
    let acts: Vec<bool> = (0..7)
        .map(|step| {
            part.begin(&Batch::default(), Progress { step, steps: 7 });
            part.value(&b).d_logprobs[0][0] != 0.0
        })
        .collect();
    assert_eq!(acts, [false, false, true, false, false, true, false]);
    let mut always = GroupDpo::default();
    assert!(always.value(&b).loss > 0.0);
    always.begin(&Batch::default(), Progress { step: 4, steps: 7 });
    assert!(always.value(&b).loss > 0.0);
}

#[test]
fn gradients_are_finite_differences() {
    for (seed, pairs) in [(1, PairSelection::Extremes), (2, PairSelection::All)] {
        let b = LossBatch { groups: vec![0, 0, 0], rewards: vec![0.2, 1.0, 0.6], ..batch(seed) };
        assert_gradients(&GroupDpo { pairs, beta: 0.7, weight: 1.5, ..GroupDpo::default() }, &b);
    }
}

#[test]
fn extreme_pairs_stay_finite() {
    let term = GroupDpo { beta: 10.0, ..GroupDpo::default() }.value(&tokens(&[-900.0, -0.5], &[0, 0], &[1.0, 0.0]));
    assert!((term.loss - 8995.0).abs() < 1e-9 && (term.d_logprobs[0][0] + 10.0).abs() < 1e-12);
}

#[test]
fn options_are_checked() {
    assert!(GroupDpo::default().check().is_empty());
    assert!(!GroupDpo { beta: 0.0, ..GroupDpo::default() }.check().is_empty());
    assert!(!GroupDpo { weight: f64::NAN, ..GroupDpo::default() }.check().is_empty());
    assert!(!GroupDpo { every: 0, ..GroupDpo::default() }.check().is_empty());
}
