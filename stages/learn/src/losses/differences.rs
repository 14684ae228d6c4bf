//! Tests every loss term: gradients equal finite differences, and are 0 for masked tokens.

use crate::aggregate::Aggregate;
use crate::batch::{LossBatch, TokenGrid};
use crate::part::LossTerm;
use trainyard_core::Chance;

/// Returns three sequences of unequal length with gaps in the mask and all lists filled.
pub fn batch(seed: u64) -> LossBatch {
    let mut d = Chance::new(seed).at("finite differences", &[]);
    let mask: Vec<Vec<bool>> = [4usize, 6, 3].iter().map(|n| (0..*n).map(|t| t != 1).collect()).collect();
    let mut grid = |low: f64, high: f64| -> TokenGrid {
        mask.iter().map(|r| r.iter().map(|_| low + (high - low) * d.uniform()).collect()).collect()
    };
    LossBatch {
        logprobs: grid(-2.0, -0.1),
        old_logprobs: grid(-2.0, -0.1),
        advantages: grid(-1.5, 1.5),
        reference: Some(grid(-2.0, -0.1)),
        entropies: Some(grid(0.0, 2.0)),
        values: Some(grid(-1.0, 1.0)),
        old_values: Some(grid(-1.0, 1.0)),
        returns: Some(grid(-1.0, 1.0)),
        weights: Aggregate::TokenMean.weights(&mask, None),
        correction: None,
        groups: vec![0, 0, 1],
        rewards: vec![1.0, 0.0, 1.0],
        correct: vec![true, false, true],
        pass_rates: vec![0.5, 0.5, 1.0],
        turns: vec![vec![(0, 2), (2, 4)], vec![(0, 3), (3, 6)], vec![(0, 3)]],
        seed,
        mask,
    }
}

/// Compares every gradient with the central difference at step 1e-6.
pub fn assert_gradients(part: &dyn LossTerm, b: &LossBatch) {
    let term = part.value(b);
    check(part, b, "logprob", Some(&term.d_logprobs), |b| Some(&mut b.logprobs));
    check(part, b, "entropy", term.d_entropies.as_ref(), |b| b.entropies.as_mut());
    check(part, b, "value", term.d_values.as_ref(), |b| b.values.as_mut());
}

fn check(
    part: &dyn LossTerm,
    b: &LossBatch,
    name: &str,
    gradient: Option<&TokenGrid>,
    list: fn(&mut LossBatch) -> Option<&mut TokenGrid>,
) {
    const STEP: f64 = 1e-6;
    for i in 0..b.mask.len() {
        for t in 0..b.mask[i].len() {
            let moved = |by: f64| {
                let mut copy = b.clone();
                if let Some(grid) = list(&mut copy) {
                    grid[i][t] += by;
                }
                part.value(&copy).loss
            };
            let difference = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            let claimed = gradient.map_or(0.0, |g| g[i][t]);
            assert!(
                (difference - claimed).abs() < 1e-7,
                "{name} of token {t} in sequence {i}: {claimed} claimed, {difference} measured"
            );
        }
    }
}
