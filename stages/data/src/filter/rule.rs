//! Defines the trait of filter rules. A rule sees all rows that are still kept, in order, and judges each of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use trainyard_chat::Models;
use trainyard_core::Result;
use trainyard_envs::Environment;
use trainyard_process::ProgramLog;
use trainyard_tables::{Problem, Trajectory};

/// Inputs of a rule in addition to the rows.
pub struct RuleContext<'a> {
    /// Problems by id; empty if the input is not connected.
    pub problems: &'a BTreeMap<String, Problem>,
    /// Evaluation problems; empty if the input is not connected.
    pub evaluation: &'a [Problem],
    /// Environment of the rows, with its tool-call format and verifier.
    pub environment: &'a dyn Environment,
    /// Folder for temporary files.
    pub scratch: &'a Path,
    /// Log of user-defined programs.
    pub log: &'a ProgramLog,
    /// Models at endpoints.
    pub models: &'a Arc<Models>,
}

/// A rule's judgment of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleVerdict {
    /// The row is kept.
    Keep,
    /// The row is kept, and its verdict has the reason.
    KeepWithReason(String),
    /// The row is rejected.
    Reject {
        /// A word from a small set by which reports count.
        code: &'static str,
        /// Reason for this row; may be empty.
        detail: String,
    },
}

impl RuleVerdict {
    /// Creates a rejection.
    pub fn reject(code: &'static str, detail: impl Into<String>) -> Self {
        Self::Reject { code, detail: detail.into() }
    }
}

/// A filter rule. The same rows in the same order get the same judgments for any number of threads.
pub trait FilterRule: Send + Sync {
    /// Returns the registered `kind`.
    fn kind(&self) -> &'static str;
    /// Returns one judgment per row, in order.
    fn judge(&self, rows: &[&Trajectory], context: &RuleContext<'_>) -> Result<Vec<RuleVerdict>>;
}

/// The text of a row that a rule compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ComparedText {
    /// All messages with their roles.
    #[default]
    Conversation,
    /// The first user message.
    Question,
}

impl ComparedText {
    /// Returns the text of a row.
    pub fn of(self, row: &Trajectory) -> String {
        match self {
            Self::Question => question(row).to_string(),
            Self::Conversation => row.messages.iter().map(|m| format!("{}\n{}\n", m.role, m.content)).collect(),
        }
    }
}

/// Returns the text of the first user message of a row, or an empty text without one.
pub fn question(row: &Trajectory) -> &str {
    row.messages.iter().find(|m| m.role == "user").map_or("", |m| &m.content)
}
