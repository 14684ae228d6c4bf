//! Implements the rule `near_duplicates`: rejects a row whose word shingles overlap those of an earlier kept row.
//!
//! The rule computes the exact Jaccard similarity of each row and the earlier kept rows that share a band with it
//! ([`super::minhash`]). Banding can miss a pair, but no row below the threshold is rejected, and the similar row is
//! always kept.

use super::minhash::{MinHash, jaccard};
use super::rule::{ComparedText, FilterRule, RuleContext, RuleVerdict};
use crate::text::shingles;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Bound;
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result};
use trainyard_tables::Trajectory;

/// Rejects rows that nearly repeat an earlier kept row.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NearDuplicates {
    /// The text to compare: `conversation` or `question`.
    pub on: ComparedText,
    /// Words per shingle.
    #[schemars(range(min = 1, max = 50))]
    pub ngram: usize,
    /// Jaccard similarity of the shingle sets at which a row counts as a near duplicate.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub threshold: f64,
    /// Bands of the signature; more bands miss fewer pairs.
    #[schemars(range(min = 1, max = 256))]
    pub bands: usize,
    /// Hash functions per band; more give fewer candidates.
    #[schemars(range(min = 1, max = 64))]
    pub rows: usize,
}

impl Default for NearDuplicates {
    fn default() -> Self {
        Self { on: ComparedText::Conversation, ngram: 5, threshold: 0.8, bands: 16, rows: 8 }
    }
}

struct Sketch {
    set: Vec<u64>,
    bands: Vec<u64>,
}

impl PartOptions for NearDuplicates {
    const KIND: &'static str = "near_duplicates";
    const SUMMARY: &'static str = "keeps the first row of each group of near-duplicates";
    const DOC: &'static str = "Rejects rows whose set of shingles (`ngram` consecutive words) has at least the\n\
        Jaccard similarity `threshold` with that of an earlier kept row. Candidates are found by MinHash with `bands`\n\
        bands of `rows` hash functions, then compared exactly: a pair may be missed, but nothing below the threshold\n\
        is rejected. Reason: near_duplicate.";
    fn check(&self) -> Vec<OptionProblem> {
        let problems = [
            OptionProblem::out_of_range("/ngram", self.ngram, 1..=50),
            OptionProblem::out_of_range("/threshold", self.threshold, (Bound::Excluded(0.0), Bound::Included(1.0))),
            OptionProblem::out_of_range("/bands", self.bands, 1..=256),
            OptionProblem::out_of_range("/rows", self.rows, 1..=64),
        ];
        problems.into_iter().flatten().collect()
    }
}

impl FilterRule for NearDuplicates {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn judge(&self, rows: &[&Trajectory], _world: &RuleContext<'_>) -> Result<Vec<RuleVerdict>> {
        let minhash = MinHash::new(self.bands, self.rows);
        let sketches: Vec<Sketch> = rows
            .par_iter()
            .map(|row| {
                let set = shingles(&self.on.of(row), self.ngram);
                let bands = minhash.signature(&set).map_or_else(Vec::new, |s| minhash.bands(&s));
                Sketch { set, bands }
            })
            .collect();
        // Used for lookups only, so the map's order does not matter.
        let mut kept: HashMap<(usize, u64), Vec<usize>> = HashMap::new();
        Ok((0..rows.len())
            .map(|i| match self.nearest(i, &sketches, &kept) {
                Some((other, similarity)) => {
                    RuleVerdict::reject("near_duplicate", format!("of {} ({similarity:.3})", rows[other].id))
                }
                None => {
                    for (band, key) in sketches[i].bands.iter().enumerate() {
                        kept.entry((band, *key)).or_default().push(i);
                    }
                    RuleVerdict::Keep
                }
            })
            .collect())
    }
}

impl NearDuplicates {
    /// Returns the first earlier kept row that shares a band with row `i` and is similar enough, with its similarity,
    /// or `None` if no kept row is.
    fn nearest(&self, i: usize, sketches: &[Sketch], kept: &HashMap<(usize, u64), Vec<usize>>) -> Option<(usize, f64)> {
        let mut candidates: Vec<usize> = sketches[i]
            .bands
            .iter()
            .enumerate()
            .filter_map(|(band, key)| kept.get(&(band, *key)))
            .flatten()
            .copied()
            .collect();
        candidates.sort_unstable();
        candidates.dedup();
        candidates
            .into_iter()
            .map(|j| (j, jaccard(&sketches[i].set, &sketches[j].set)))
            .find(|(_, s)| *s >= self.threshold)
    }
}
