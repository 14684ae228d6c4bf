use super::*;
use crate::batch::{Group, Rollout, TurnSummary};
use crate::losses::differences::{assert_gradients, batch};
use crate::losses::entropy::Entropy;

/// Returns one rollout with two turns (tokens 1..3 and 4..6 of seven) and these entropies.
fn rollout(entropies: [f64; 7]) -> Rollout {
    let turn = |first: usize, end: usize| TurnSummary { first, end, ..TurnSummary::default() };
    Rollout {
        mask: vec![false, true, true, false, true, true, false],
        entropies: Some(entropies.to_vec()),
        turns: vec![turn(1, 3), turn(4, 6)],
        ..Rollout::default()
    }
}

fn step(rollouts: Vec<Rollout>) -> Batch {
    Batch { step: 0, groups: vec![Group { rollouts, ..Group::default() }] }
}

fn at(step: u64) -> Progress {
    Progress { step, steps: 5 }
}

/// Returns the part after two steps: turn 0 with means 1 and 2, turn 1 with 0.5 in the second only.
fn taught(mut part: EntropySmoothing) -> EntropySmoothing {
    let mut short = rollout([9.0, 0.5, 1.5, 9.0, 0.0, 0.0, 9.0]);
    short.turns.truncate(1);
    part.begin(&step(vec![short]), at(0));
    part.begin(&step(vec![rollout([9.0, 2.0, 2.0, 9.0, 0.25, 0.75, 9.0])]), at(1));
    part.begin(&step(vec![rollout([9.0; 7])]), at(2));
    part
}

/// Returns one token per entropy, in turn 0, 1 or 2 (which was never sampled).
fn tokens(entropies: &[f64], turn: usize) -> LossBatch {
    let n = entropies.len();
    let turns = [vec![(0, n)], vec![(0, 0), (0, n)], vec![(0, 0), (0, 0), (0, n)]];
    LossBatch {
        mask: vec![vec![true; n]],
        logprobs: vec![vec![-1.0; n]],
        entropies: Some(vec![entropies.to_vec()]),
        weights: vec![vec![1.0; n]],
        turns: vec![turns[turn].clone()],
        ..LossBatch::default()
    }
}

#[test]
fn bands_match_hand_computation() {
    // Anchors: 1.5 at turn 0, 0.5 at turn 1; the third step does not count yet. β in step 2 of 5 is 3.
    let part = taught(EntropySmoothing {
        weight: 0.1,
        low: 0.8,
        high: 1.2,
        beta_start: 2.0,
        beta_end: 4.0,
        ..EntropySmoothing::default()
    });
    let term = part.value(&tokens(&[1.0, 1.5, 2.0], 0));
    // Outside by 1.2 − 1 and 2 − 1.8.
    assert!((term.loss + 0.1 * (1.0 + 1.5 + 2.0 - 3.0 * (0.2 + 0.2))).abs() < 1e-12, "{}", term.loss);
    let slopes = &term.d_entropies.as_ref().unwrap()[0];
    for (slope, want) in slopes.iter().zip([-0.4, -0.1, 0.2]) {
        assert!((slope - want).abs() < 1e-12);
    }
    assert_eq!(term.sums, [("outside_band", 2.0), ("entropy_lowered", 1.0)]);
    let second = part.value(&tokens(&[0.5, 1.0], 1));
    assert!((second.loss + 0.1 * (1.5 - 3.0 * 0.4)).abs() < 1e-12);
    assert_eq!(
        part.value(&tokens(&[0.0, 9.0], 2)).sums,
        [("outside_band", 0.0), ("entropy_lowered", 0.0)],
        "no past, no band"
    );
}

#[test]
fn first_step_and_infinite_band_equal_the_plain_bonus() {
    let mut fresh = EntropySmoothing { weight: 0.3, ..EntropySmoothing::default() };
    fresh.begin(&step(vec![rollout([1.0; 7])]), at(0));
    let wide = taught(EntropySmoothing { weight: 0.3, low: 0.0, high: 1e9, ..EntropySmoothing::default() });
    let free = taught(EntropySmoothing { weight: 0.3, beta_start: 0.0, beta_end: 0.0, ..EntropySmoothing::default() });
    for seed in 0..4 {
        let b = batch(seed);
        let plain = Entropy { weight: 0.3 }.value(&b);
        for part in [&fresh, &wide, &free] {
            let term = part.value(&b);
            assert!((term.loss - plain.loss).abs() < 1e-12);
            assert_eq!(term.d_entropies, plain.d_entropies);
        }
    }
}

#[test]
fn penalty_weight_is_linear_or_decays() {
    let line = EntropySmoothing { beta_start: 1.0, beta_end: 3.0, ..EntropySmoothing::default() };
    let betas: Vec<f64> = (0..5).map(|step| line.beta(at(step))).collect();
    assert_eq!(betas, [1.0, 1.5, 2.0, 2.5, 3.0]);
    assert_eq!(line.beta(Progress { step: 0, steps: 1 }), 1.0);
    let decay = EntropySmoothing { decay: Some(3.0), ..EntropySmoothing::default() };
    for k in 0..5 {
        let published = 1.0 + (-3.0 * k as f64 / 2.0).exp();
        assert!((decay.beta(at(k)) - published).abs() < 1e-12);
    }
}

#[test]
fn masked_and_given_tokens_do_not_count() {
    let mut one = rollout([9.0, 1.0, 3.0, 9.0, 1.0, 2.0, 9.0]);
    one.given = 2;
    one.mask[5] = false;
    let other = Rollout { entropies: None, ..rollout([9.0; 7]) };
    assert_eq!(means(&step(vec![one, other])), BTreeMap::from([(0, 3.0), (1, 1.0)]));
}

#[test]
fn gradients_are_finite_differences() {
    let part = taught(EntropySmoothing { weight: 0.7, low: 0.4, high: 0.6, ..EntropySmoothing::default() });
    for seed in 0..4 {
        assert_gradients(&part, &batch(seed));
        assert!(part.value(&batch(seed)).sums[0].1 > 0.0, "some tokens must be outside");
    }
}

#[test]
fn state_resumes_exactly() {
    let options = EntropySmoothing { weight: 0.7, low: 0.4, high: 0.6, ..EntropySmoothing::default() };
    let mut part = taught(options.clone());
    let mut copy = options.clone();
    let written = serde_json::to_string(&part.save()).unwrap();
    copy.load(serde_json::from_str(&written).unwrap()).unwrap();
    assert_eq!(part.value(&batch(1)), copy.value(&batch(1)));
    for p in [&mut part, &mut copy] {
        p.begin(&step(vec![rollout([0.3; 7])]), at(3));
    }
    assert_eq!(part.value(&batch(2)), copy.value(&batch(2)));
    assert_ne!(part.value(&batch(2)), options.value(&batch(2)), "the past matters");
    assert!(copy.load(json!("x")).is_err());
}

#[test]
fn options_are_checked() {
    assert!(EntropySmoothing::default().check().is_empty());
    assert!(!EntropySmoothing { low: 1.5, high: 1.2, ..EntropySmoothing::default() }.check().is_empty());
    assert!(!EntropySmoothing { weight: -1.0, ..EntropySmoothing::default() }.check().is_empty());
    assert!(!EntropySmoothing { decay: Some(-1.0), ..EntropySmoothing::default() }.check().is_empty());
    assert!(!EntropySmoothing { high: f64::NAN, ..EntropySmoothing::default() }.check().is_empty());
}
