//! Defines the trait of step scorers.

use std::collections::BTreeMap;
use trainyard_core::{Result, Secrets};
use trainyard_process::ProgramLog;
use trainyard_tables::{Problem, Trajectory};

/// Inputs of a scorer in addition to the rows.
pub struct ScoringContext<'a> {
    /// Problems by id; empty if the input is not connected.
    pub problems: &'a BTreeMap<String, Problem>,
    /// Log of user-defined programs.
    pub log: &'a ProgramLog,
    /// Secrets that the options name.
    pub secrets: &'a Secrets,
}

/// Labels the agent's turns. Equal rows get equal labels.
pub trait StepScorer: Send + Sync {
    /// Returns the registered `kind`.
    fn kind(&self) -> &'static str;
    /// Returns for each row one label in [0, 1] for each turn of the agent, or `None` for an unlabeled turn.
    fn label(&self, rows: &[&Trajectory], context: &ScoringContext<'_>) -> Result<Vec<Vec<Option<f32>>>>;
}

/// Returns the number of the agent's turns in a row.
pub fn turns(row: &Trajectory) -> usize {
    row.messages.iter().filter(|message| message.role == "assistant").count()
}
