//! Compares every loss with separately computed numbers (`fixtures/make.py`) and with finite differences.

use super::{PairAnswer, PairTerm, PreferenceLoss, PreferencePair};
use crate::registry::preference_losses;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

#[derive(Deserialize)]
struct Case {
    loss: Value,
    pairs: Vec<GoldenPair>,
}

#[derive(Deserialize)]
struct GoldenPair {
    chosen: [f64; 3],
    rejected: [f64; 3],
    expected: [f64; 5],
}

fn answer([logprob, reference, tokens]: [f64; 3]) -> PairAnswer {
    PairAnswer { logprob, reference, tokens: tokens as usize }
}

fn cases() -> Vec<(Box<dyn PreferenceLoss>, Case)> {
    let cases: Vec<Case> = serde_json::from_str(include_str!("fixtures/losses.json")).unwrap();
    cases.into_iter().map(|case| (preference_losses().build(&case.loss, &()).unwrap(), case)).collect()
}

fn numbers(found: PairTerm) -> [f64; 5] {
    [found.loss, found.d_chosen, found.d_rejected, found.chosen_reward, found.rejected_reward]
}

#[test]
fn numbers_computed_from_the_papers_formulas_agree() {
    let mut seen = BTreeSet::new();
    for (part, case) in cases() {
        seen.insert(case.loss["kind"].as_str().unwrap().to_string());
        for golden in &case.pairs {
            let found = numbers(
                part.value(&PreferencePair { chosen: answer(golden.chosen), rejected: answer(golden.rejected) }),
            );
            for (found, expected) in found.into_iter().zip(golden.expected) {
                let error = (found - expected).abs() / expected.abs().max(1.0);
                assert!(error < 1e-12, "{}: {found} is not {expected}", case.loss);
            }
        }
    }
    let known: BTreeSet<String> = preference_losses().names().into_iter().map(String::from).collect();
    assert_eq!(seen, known, "every loss has golden numbers");
}

#[test]
fn slopes_are_finite_differences() {
    let step = 1e-5;
    for (part, case) in cases() {
        for golden in &case.pairs {
            let pair = PreferencePair { chosen: answer(golden.chosen), rejected: answer(golden.rejected) };
            let moved = |chosen: f64, rejected: f64| {
                let mut pair = pair;
                pair.chosen.logprob += chosen;
                pair.rejected.logprob += rejected;
                part.value(&pair).loss
            };
            let found = part.value(&pair);
            let by_chosen = (moved(step, 0.0) - moved(-step, 0.0)) / (2.0 * step);
            let by_rejected = (moved(0.0, step) - moved(0.0, -step)) / (2.0 * step);
            for (slope, difference) in [(found.d_chosen, by_chosen), (found.d_rejected, by_rejected)] {
                assert!((slope - difference).abs() < 1e-6 * (1.0 + slope.abs()), "{}: {slope} {difference}", case.loss);
            }
        }
    }
}

#[test]
fn loss_never_rises_with_the_gap_before_the_target() {
    for (part, case) in cases() {
        let found = part.value(&PreferencePair {
            chosen: PairAnswer { logprob: -6.0, reference: -6.0, tokens: 3 },
            rejected: PairAnswer { logprob: -6.0, reference: -6.0, tokens: 3 },
        });
        assert!(found.d_chosen < 0.0 && found.d_rejected > 0.0, "{}: {found:?}", case.loss);
    }
}
