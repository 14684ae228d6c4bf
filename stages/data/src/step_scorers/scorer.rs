//! The trait of step scorers.

use std::collections::BTreeMap;
use trainyard_core::{Result, Secrets};
use trainyard_process::Log;
use trainyard_tables::{Problem, Trajectory};

/// What a scorer may use besides the rows.
pub struct ScoringContext<'a> {
    /// Problems by id; empty if the input is not wired.
    pub problems: &'a BTreeMap<String, Problem>,
    /// Where programs of the user write.
    pub log: &'a Log,
    /// The secrets that the options name.
    pub secrets: &'a Secrets,
}

/// Labels the agent's turns. Equal rows get equal labels.
pub trait StepScorer: Send + Sync {
    /// The registered `kind`.
    fn kind(&self) -> &'static str;
    /// Of each row, one label in [0, 1] for each turn of the agent, or none where a turn stays without one.
    fn label(&self, rows: &[&Trajectory], context: &ScoringContext<'_>) -> Result<Vec<Vec<Option<f32>>>>;
}

/// Turns of the agent in a row.
pub fn turns(row: &Trajectory) -> usize {
    row.messages.iter().filter(|message| message.role == "assistant").count()
}
