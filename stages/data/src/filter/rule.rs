//! What a rule is: it looks at all rows that are still kept, in order, and says of each whether to keep it and why not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_core::Result;
use trainyard_envs::Environment;
use trainyard_tables::{Problem, Trajectory};

/// What a rule may look at besides the rows.
pub struct World<'a> {
    /// By id; empty if the stage was given none.
    pub problems: &'a BTreeMap<String, Problem>,
    pub evaluation: &'a [Problem],
    /// Its tool-call format and verifier.
    pub environment: &'a dyn Environment,
    /// A folder for temporary files.
    pub scratch: &'a Path,
}

/// A rule's word on one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgment {
    Keep,
    /// `code` is one of few words that reports count by; `detail` is about this row.
    Reject {
        code: &'static str,
        detail: String,
    },
}

impl Judgment {
    pub fn reject(code: &'static str, detail: impl Into<String>) -> Self {
        Self::Reject { code, detail: detail.into() }
    }
}

/// A filter rule. Deterministic; the same rows in the same order get the same judgments for any number of threads.
pub trait Rule: Send + Sync {
    fn kind(&self) -> &'static str;
    /// One judgment per row, in order.
    fn judge(&self, rows: &[&Trajectory], world: &World<'_>) -> Result<Vec<Judgment>>;
}

/// Which text of a row a rule compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// All messages with their roles.
    #[default]
    Conversation,
    /// The first user message.
    Question,
}

impl Part {
    pub fn of(self, row: &Trajectory) -> String {
        match self {
            Self::Question => question(row).to_string(),
            Self::Conversation => row.messages.iter().map(|m| format!("{}\n{}\n", m.role, m.content)).collect(),
        }
    }
}

/// The first user message of a row.
pub fn question(row: &Trajectory) -> &str {
    row.messages.iter().find(|m| m.role == "user").map_or("", |m| &m.content)
}
