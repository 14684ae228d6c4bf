//! Implements `clip_cov` (Clip-Cov), the clipped loss without a few tokens whose logprob and advantage rise together.
//!
//! A policy loses entropy through tokens that combine a high probability with a high advantage. Removing a small random
//! share of these tokens keeps the policy exploring (2505.22617). The choice depends on the minibatch's seed and the
//! token's position, so micro-batches do not change it.

use super::clip::Clip;
use super::{RatioSums, covariances, ratio, ratio_metrics, share_of};
use crate::batch::LossBatch;
use crate::part::{LossTerm, RlPart, TermScope, TermValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trainyard_api::PartOptions;
use trainyard_core::{Chance, MetricInfo, OptionProblem, Reduce};

/// Options of `clip_cov`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClipCov {
    /// The ratio is at least 1 − clip_low.
    #[schemars(range(min = 0, max = 1))]
    pub clip_low: f64,
    /// The ratio is at most 1 + clip_high.
    #[schemars(range(min = 0))]
    pub clip_high: f64,
    /// Share of the minibatch's tokens in the loss that is silenced; 0 = none, anything above = at least one token.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Only tokens with a covariance above this are candidates.
    pub low: f64,
    /// Only tokens with a covariance below this are candidates.
    pub high: f64,
}

impl Default for ClipCov {
    fn default() -> Self {
        Self { clip_low: 0.2, clip_high: 0.28, share: 2e-4, low: 1.0, high: 5.0 }
    }
}

impl PartOptions for ClipCov {
    const KIND: &'static str = "clip_cov";
    const SUMMARY: &'static str = "clipped ratio without a few tokens of high covariance (Clip-Cov)";
    const DOC: &'static str = "The loss of `clip`, but loss and gradient are 0 on max(⌊share·N⌋, 1) of the\n\
        minibatch's N tokens. These are drawn at random among the tokens that the clip leaves a gradient and whose\n\
        covariance (A − mean A)·(logπ − mean logπ) lies strictly between `low` and `high`; means are over the\n\
        N tokens, logπ is current. With fewer candidates, the gradient of all of them is 0. Sources: 2505.22617\n\
        (share 2e-4, band 1..5); SPEAR, 2509.22601 (share 0.02, band 1..40).";
    fn metrics() -> Vec<MetricInfo> {
        [
            ratio_metrics(),
            vec![
                MetricInfo::new("silenced", "share", "Share of tokens whose gradient is cut for their covariance.")
                    .reduced_by(Reduce::LastTenth)
                    .optional()
                    .former_name("clip_cov_fraction"),
            ],
        ]
        .concat()
    }
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems = super::bounds(self.clip_low, self.clip_high);
        problems.extend(OptionProblem::out_of_range("/share", self.share, 0.0..=1.0));
        problems.extend(
            OptionProblem::out_of_range("/low", self.low, ..self.high).map(|p| p.help("use a value below `high`")),
        );
        problems
    }
}

impl RlPart for ClipCov {}

impl LossTerm for ClipCov {
    fn value(&self, b: &LossBatch) -> TermValue {
        let clip = Clip { clip_low: self.clip_low, clip_high: self.clip_high, dual_clip: None };
        let silenced = self.silenced(b, &clip);
        let mut term = TermValue { d_logprobs: b.zeros(), ..TermValue::default() };
        let mut sums = RatioSums::default();
        for (i, t) in b.places() {
            let log_ratio = b.logprobs[i][t] - b.old_logprobs[i][t];
            let token = clip.token(log_ratio, b.advantages[i][t]);
            sums.add(ratio(log_ratio).0, token.clipped);
            if !silenced.contains(&(i, t)) {
                let weight = b.weights[i][t] * b.importance(i, t);
                term.loss += weight * token.loss;
                term.d_logprobs[i][t] = weight * token.gradient;
            }
        }
        term.sums = sums.named();
        term.sums.push(("silenced", silenced.len() as f64));
        term
    }
    fn scope(&self) -> TermScope {
        TermScope::Minibatch
    }
}

impl ClipCov {
    /// Returns the positions of the tokens that are removed from the loss.
    fn silenced(&self, b: &LossBatch, clip: &Clip) -> BTreeSet<(usize, usize)> {
        let covariances = covariances(b);
        let count = share_of(self.share, covariances.len());
        let chance = Chance::new(b.seed);
        let learns =
            |i: usize, t: usize| !clip.token(b.logprobs[i][t] - b.old_logprobs[i][t], b.advantages[i][t]).clipped;
        let mut candidates: Vec<(u64, usize, usize)> = covariances
            .into_iter()
            .filter(|&(i, t, covariance)| covariance > self.low && covariance < self.high && learns(i, t))
            .map(|(i, t, _)| (chance.at("clip_cov", &[i as u64, t as u64]).next_u64(), i, t))
            .collect();
        candidates.sort_unstable();
        candidates.truncate(count);
        candidates.into_iter().map(|(_, i, t)| (i, t)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::Aggregate;
    use crate::losses::differences::{assert_gradients, batch};

    /// Returns eight tokens on the policy, all with covariance (±1)·(±1) = 1.
    fn even(seed: u64) -> LossBatch {
        let mask = vec![vec![true; 4]; 2];
        let logprobs = vec![vec![-1.0; 4], vec![-3.0; 4]];
        LossBatch {
            old_logprobs: logprobs.clone(),
            logprobs,
            advantages: vec![vec![1.0; 4], vec![-1.0; 4]],
            weights: Aggregate::TokenMean.weights(&mask, None),
            mask,
            seed,
            ..LossBatch::default()
        }
    }
    fn silent(term: &TermValue) -> Vec<usize> {
        term.d_logprobs.iter().flatten().enumerate().filter(|(_, g)| **g == 0.0).map(|(n, _)| n).collect()
    }

    #[test]
    fn share_of_the_band_is_silent_and_the_rest_is_clip() {
        let part = ClipCov { share: 0.25, low: 0.5, high: 2.0, ..ClipCov::default() };
        let (b, plain) = (even(3), Clip::default().value(&even(3)));
        let term = part.value(&b);
        assert_eq!(silent(&term).len(), 2, "a quarter of eight");
        assert_eq!(term.sums[2], ("silenced", 2.0));
        for (have, want) in term.d_logprobs.iter().flatten().zip(plain.d_logprobs.iter().flatten()) {
            assert!(*have == 0.0 || have == want);
        }
        // Each token's loss is −A/8 at ratio 1; only that of the silenced ones is missing.
        let missing: f64 = silent(&term).iter().map(|n| if *n < 4 { -0.125 } else { 0.125 }).sum();
        assert!((plain.loss - term.loss - missing).abs() < 1e-12);
    }

    #[test]
    fn choice_depends_on_the_seed_and_stays_in_the_band() {
        let part = ClipCov { share: 0.1, low: 0.5, high: 2.0, ..ClipCov::default() };
        let chosen: BTreeSet<Vec<usize>> = (0..200).map(|seed| silent(&part.value(&even(seed)))).collect();
        assert!(chosen.iter().all(|c| c.len() == 1), "at least one, although a tenth of eight is less");
        assert_eq!(chosen.len(), 8, "every candidate is chosen sometimes");
        assert_eq!(part.value(&even(5)), part.value(&even(5)));
        for band in [(1.0, 2.0), (0.0, 1.0)] {
            let term = ClipCov { share: 1.0, low: band.0, high: band.1, ..ClipCov::default() }.value(&even(1));
            assert_eq!(silent(&term), Vec::<usize>::new(), "the bounds are exclusive");
        }
    }

    #[test]
    fn clipped_tokens_are_not_candidates() {
        let mut b = even(1);
        for row in &mut b.old_logprobs {
            row[0] -= if row[0] == -1.0 { 1.0 } else { -1.0 };
        }
        // The first token of each sequence has moved beyond its bound; the other six have not.
        let term = ClipCov { share: 1.0, low: 0.5, high: 2.0, ..ClipCov::default() }.value(&b);
        assert_eq!((term.sums[0], term.sums[2]), (("fraction", 2.0), ("silenced", 6.0)));
    }

    #[test]
    fn share_zero_equals_clip() {
        for seed in 0..5 {
            let (plain, term) =
                (Clip::default().value(&batch(seed)), ClipCov { share: 0.0, ..ClipCov::default() }.value(&batch(seed)));
            assert_eq!((plain.loss, &plain.d_logprobs), (term.loss, &term.d_logprobs));
        }
    }

    #[test]
    fn gradients_are_finite_differences() {
        for seed in 0..5 {
            assert_gradients(&ClipCov { share: 0.3, low: -10.0, high: 10.0, ..ClipCov::default() }, &batch(seed));
        }
        assert_gradients(
            &ClipCov { share: 0.3, low: -10.0, high: 10.0, ..ClipCov::default() },
            &LossBatch { correction: Some(batch(3).advantages), ..batch(4) },
        );
    }

    #[test]
    fn options_are_checked() {
        assert!(ClipCov::default().check().is_empty());
        for wrong in [
            ClipCov { share: 1.1, ..ClipCov::default() },
            ClipCov { low: 5.0, ..ClipCov::default() },
            ClipCov { high: f64::NAN, ..ClipCov::default() },
            ClipCov { clip_low: 2.0, ..ClipCov::default() },
        ] {
            assert!(!wrong.check().is_empty());
        }
    }
}
