//! Rule `exact_duplicates`: a row equal to an earlier kept row.
//!
//! Conversations are compared character by character, because code that differs in one operator is different code.
//! Questions are compared as problems: by their words, and by the canonical form of the problem where it is known.

use super::rule::{Judgment, Part, Rule, World};
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
    /// What must be equal: `conversation` (all messages, symbols included) or `question` (the problem: the words of the
    /// first user message, or its canonical form).
    #[serde(default)]
    pub on: Part,
}

impl PartOptions for ExactDuplicates {
    const KIND: &'static str = "exact_duplicates";
    const SUMMARY: &'static str = "the first of equal rows";
    const DOC: &'static str = "Rejects all but the first of equal rows: `on: conversation` compares all messages character by character, `on: question` the problem:\n\
        the words of the first user message, or the canonical form where the input `problems` holds one. Reason: duplicate.";
}

impl Rule for ExactDuplicates {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn judge(&self, rows: &[&Trajectory], world: &World<'_>) -> Result<Vec<Judgment>> {
        let mut first: BTreeMap<Key, &str> = BTreeMap::new();
        let mut judgments = Vec::with_capacity(rows.len());
        for row in rows {
            let keys = self.keys(row, world);
            let earlier = keys.iter().find_map(|key| first.get(key).copied());
            match earlier {
                Some(id) => judgments.push(Judgment::reject("duplicate", format!("of {id}"))),
                None => {
                    first.extend(keys.into_iter().map(|key| (key, row.id.as_str())));
                    judgments.push(Judgment::Keep);
                }
            }
        }
        Ok(judgments)
    }
}

/// What two rows must share to be duplicates.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Text(String),
    Canonical(String),
}

impl ExactDuplicates {
    fn keys(&self, row: &Trajectory, world: &World<'_>) -> Vec<Key> {
        if self.on == Part::Conversation {
            return vec![Key::Text(self.on.of(row))];
        }
        let problem = world.problems.get(&row.problem_id).filter(|p| !p.canonical.is_empty());
        let canonical = problem.map(|p| Key::Canonical(p.canonical.clone()));
        std::iter::once(Key::Text(normal(&self.on.of(row)))).chain(canonical).collect()
    }
}
