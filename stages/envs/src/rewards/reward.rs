//! What a reward is.

use trainyard_tables::{Problem, Trajectory};

/// What one reward says about one episode.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Score {
    /// None = not applicable (no tool call to judge, an infrastructure failure); it enters no sum.
    pub value: Option<f64>,
    /// One value per agent turn, or empty.
    pub per_turn: Vec<f64>,
    /// Why, for people.
    pub note: Option<String>,
}

impl Score {
    pub fn of(value: f64) -> Self {
        Self { value: Some(value), ..Self::default() }
    }
    pub fn not_applicable(note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..Self::default() }
    }
}

/// One reward with its options. Pure: equal episodes give equal scores.
pub trait Reward: Send + Sync {
    /// The `kind` it is registered under; also the name of its component in the rollout record.
    fn name(&self) -> &str;
    fn score(&self, r: &Trajectory, p: &Problem) -> Score;
}
