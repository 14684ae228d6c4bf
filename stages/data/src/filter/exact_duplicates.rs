//! Rule `exact_duplicates`: rejects a row equal to an earlier kept row. Conversations are compared character by
//! character, because code that differs in an operator is different code; questions, being prose, by their words.

use super::rule::{ComparedText, Judgment, Rule, RuleContext};
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
    /// What must be equal: `conversation` (all messages, including symbols) or `question` (the words of the first user
    /// message).
    #[serde(default)]
    pub on: ComparedText,
}

impl PartOptions for ExactDuplicates {
    const KIND: &'static str = "exact_duplicates";
    const SUMMARY: &'static str = "keeps the first of equal rows";
    const DOC: &'static str = "Rejects all but the first of equal rows. `on: conversation` compares all messages\n\
        character by character, `on: question` the words of the first user message. Reason: duplicate.";
}

impl Rule for ExactDuplicates {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn judge(&self, rows: &[&Trajectory], _world: &RuleContext<'_>) -> Result<Vec<Judgment>> {
        let mut first: BTreeMap<String, &str> = BTreeMap::new();
        Ok(rows
            .iter()
            .map(|row| {
                let key = match self.on {
                    ComparedText::Conversation => self.on.of(row),
                    ComparedText::Question => normal(&self.on.of(row)),
                };
                match first.get(&key) {
                    Some(id) => Judgment::reject("duplicate", format!("of {id}")),
                    None => {
                        first.insert(key, &row.id);
                        Judgment::Keep
                    }
                }
            })
            .collect())
    }
}
