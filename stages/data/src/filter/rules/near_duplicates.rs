//! Implements the rule `near_duplicates`: rejects a row whose word shingles overlap those of an earlier kept row.
//!
//! The rule computes the exact Jaccard similarity of each row and the earlier kept rows that share a band with it
//! ([`crate::filter::minhash`]). Banding can miss a pair, but no row below the threshold is rejected, and the similar
//! row is always kept.

use crate::filter::bands::BandIndex;
use crate::filter::histogram::Histogram;
use crate::filter::minhash::{MinHash, jaccard};
use crate::filter::row_ids::RowIds;
use crate::filter::rows::RuleRows;
use crate::filter::rule::{ComparedText, FilterRule, MeasuredValues, RuleColumns, RuleContext, RulePass, RuleVerdict};
use crate::filter::shingle_file::ShingleFile;
use crate::text::shingles;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Bound;
use trainyard_api::PartOptions;
use trainyard_api::filter_tables::NEAR_DUPLICATE;
use trainyard_core::{OptionProblem, Result};

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
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(&["messages"])
    }
    fn start<'a>(&'a self, context: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let pass = NearPass {
            rule: self,
            minhash: MinHash::new(self.bands, self.rows),
            kept: BandIndex::new(self.bands),
            sets: ShingleFile::create(&context.new_file("shingles"))?,
            ids: RowIds::default(),
            similarities: Histogram::default(),
        };
        Ok(Box::new(pass))
    }
}

/// Kept rows so far. In memory are their bands and ids, in a file their shingles.
struct NearPass<'a> {
    rule: &'a NearDuplicates,
    minhash: MinHash,
    kept: BandIndex,
    sets: ShingleFile,
    ids: RowIds,
    /// Similarities of the compared pairs.
    similarities: Histogram,
}

struct Sketch {
    set: Vec<u64>,
    bands: Vec<u64>,
}

impl RulePass for NearPass<'_> {
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        let (messages, ids) = (rows.messages()?, rows.ids()?);
        let (rule, minhash) = (self.rule, &self.minhash);
        let sketch = |i: usize| {
            let set = shingles(&rule.on.of(&messages, i), rule.ngram);
            let bands = minhash.signature(&set).map_or_else(Vec::new, |s| minhash.bands(&s));
            Sketch { set, bands }
        };
        let sketches: Vec<Sketch> = (0..rows.len()).into_par_iter().map(sketch).collect();
        let mut verdicts = Vec::with_capacity(rows.len());
        for (i, sketch) in sketches.iter().enumerate() {
            verdicts.push(match self.nearest(sketch)? {
                Some((row, similarity)) => {
                    let detail = format!("of {} ({similarity:.3})", self.ids.get(row));
                    RuleVerdict::reject(NEAR_DUPLICATE, detail)
                }
                None => {
                    // A row without words has no bands and is never compared.
                    if !sketch.bands.is_empty() {
                        self.ids.push(ids.value(i));
                        self.sets.push(&sketch.set)?;
                        self.kept.push(&sketch.bands);
                    }
                    RuleVerdict::Keep
                }
            });
        }
        Ok(verdicts)
    }
    fn measured(&self) -> Option<MeasuredValues> {
        Some(MeasuredValues { name: "similarity of compared pairs", values: self.similarities.clone() })
    }
}

impl NearPass<'_> {
    /// Returns the first earlier kept row that shares a band with this row and is similar enough, with its similarity,
    /// or `None` if no kept row is.
    fn nearest(&mut self, sketch: &Sketch) -> Result<Option<(u32, f64)>> {
        for row in self.kept.candidates(&sketch.bands) {
            let similarity = jaccard(&sketch.set, self.sets.get(row)?);
            self.similarities.add(similarity);
            if similarity >= self.rule.threshold {
                return Ok(Some((row, similarity)));
            }
        }
        Ok(None)
    }
}
