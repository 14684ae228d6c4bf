//! Implements the rule `exact_duplicates`: rejects a row that equals an earlier kept row. Conversations are compared
//! character by character, because code that differs in an operator is different code. Questions are prose and are
//! compared by their words.

use crate::filter::row_ids::RowIds;
use crate::filter::rows::RuleRows;
use crate::filter::rule::{ComparedText, FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict};
use crate::hash::xxh3_128;
use crate::text::normal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use trainyard_api::PartOptions;
use trainyard_core::Result;
use trainyard_tables::Problem;

/// Rejects all but the first of equal rows.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExactDuplicates {
    /// Compared text: `conversation` (all messages, including symbols) or `question` (the words of the first user
    /// message).
    #[serde(default)]
    pub on: ComparedText,
}

impl PartOptions for ExactDuplicates {
    const KIND: &'static str = "exact_duplicates";
    const SUMMARY: &'static str = "keeps the first of equal rows";
    const DOC: &'static str = "Rejects all but the first of equal rows. `on: conversation` compares all messages\n\
        character by character, `on: question` the problem: the words of the first user message, or the canonical \
        form\n\
        where the input `problems` holds one. Reason: duplicate.";
}

impl FilterRule for ExactDuplicates {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(match self.on {
            ComparedText::Conversation => &["messages"],
            ComparedText::Question => &["messages", "problem_id"],
        })
    }
    fn start<'a>(&'a self, context: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let problems = context.problems;
        Ok(Box::new(ExactPass { on: self.on, problems, first: HashMap::new(), ids: RowIds::default() }))
    }
}

/// Kept rows so far, by hashes of 128 bits: a million texts have two of equal hash with a chance of 10⁻²⁷.
struct ExactPass<'a> {
    on: ComparedText,
    problems: &'a BTreeMap<String, Problem>,
    /// Number of the kept row with this hash. Used for lookups only, so the map's order does not matter.
    first: HashMap<u128, u32>,
    ids: RowIds,
}

impl RulePass for ExactPass<'_> {
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        let (messages, ids) = (rows.messages()?, rows.ids()?);
        let mut text = String::new();
        let mut verdicts = Vec::with_capacity(rows.len());
        for i in 0..rows.len() {
            text.clear();
            self.on.write(&messages, i, &mut text);
            let keys = match self.on {
                ComparedText::Conversation => [Some(xxh3_128(text.as_bytes(), 0)), None],
                ComparedText::Question => {
                    let problem = self.problems.get(rows.texts("problem_id")?.value(i));
                    let canonical = problem.map(|p| p.canonical.as_str()).filter(|form| !form.is_empty());
                    [Some(xxh3_128(normal(&text).as_bytes(), 0)), canonical.map(|form| xxh3_128(form.as_bytes(), 1))]
                }
            };
            verdicts.push(match keys.iter().flatten().find_map(|key| self.first.get(key)) {
                Some(earlier) => RuleVerdict::reject("duplicate", format!("of {}", self.ids.get(*earlier))),
                None => {
                    let number = self.ids.push(ids.value(i));
                    self.first.extend(keys.into_iter().flatten().map(|key| (key, number)));
                    RuleVerdict::Keep
                }
            });
        }
        Ok(verdicts)
    }
}
