//! Implements the rule `exact_duplicates`: rejects a row that equals an earlier kept row. Conversations are compared
//! character by character, because code that differs in an operator is different code. Questions are prose and are
//! compared by their words.

use super::rule::{ComparedText, FilterRule, RuleContext, RuleVerdict};
use crate::text::normal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_api::PartOptions;
use trainyard_core::Result;
use trainyard_tables::Trajectory;

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
    fn judge(&self, rows: &[&Trajectory], context: &RuleContext<'_>) -> Result<Vec<RuleVerdict>> {
        let mut first: BTreeMap<DuplicateKey, &str> = BTreeMap::new();
        let mut judgments = Vec::with_capacity(rows.len());
        for row in rows {
            let keys = self.keys(row, context);
            let earlier = keys.iter().find_map(|key| first.get(key).copied());
            match earlier {
                Some(id) => judgments.push(RuleVerdict::reject("duplicate", format!("of {id}"))),
                None => {
                    first.extend(keys.into_iter().map(|key| (key, row.id.as_str())));
                    judgments.push(RuleVerdict::Keep);
                }
            }
        }
        Ok(judgments)
    }
}

/// Key that two duplicates share.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum DuplicateKey {
    Text(String),
    Canonical(String),
}

impl ExactDuplicates {
    fn keys(&self, row: &Trajectory, context: &RuleContext<'_>) -> Vec<DuplicateKey> {
        if self.on == ComparedText::Conversation {
            return vec![DuplicateKey::Text(self.on.of(row))];
        }
        let problem = context.problems.get(&row.problem_id).filter(|p| !p.canonical.is_empty());
        let canonical = problem.map(|p| DuplicateKey::Canonical(p.canonical.clone()));
        std::iter::once(DuplicateKey::Text(normal(&self.on.of(row)))).chain(canonical).collect()
    }
}
