//! Defines trials of a stage: a few of its episodes with its environment, tools and rewards, before training. A trial
//! stores nothing.

use serde::Serialize;
use trainyard_tables::{Problem, Trajectory};

/// Parameters of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// Number of episodes, at least 1.
    pub episodes: usize,
}

/// A component of an episode's reward.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Component {
    /// Name in records.
    pub name: String,
    /// Weight in the sum.
    pub weight: f64,
    /// Value before the weight; `None` if it does not apply to this episode.
    pub value: Option<f64>,
}

/// An episode of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialEpisode {
    /// Row that the stage would write for the episode.
    pub trajectory: Trajectory,
    /// Problem of the episode.
    pub problem: Problem,
    /// Whether the answer is correct.
    pub correct: bool,
    /// All components of the stage's reward, in option order.
    pub components: Vec<Component>,
}
