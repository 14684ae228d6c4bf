//! Trying a stage: a few of its episodes with its own environment, tools and rewards, before anything is trained.
//! Nothing of them is stored.

use serde::Serialize;
use trainyard_tables::{Problem, Trajectory};

/// What a trial asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// Episodes, from 1.
    pub episodes: usize,
}

/// A component of an episode's reward.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Component {
    /// Its name in records.
    pub name: String,
    /// Factor in the sum.
    pub weight: f64,
    /// Before the weight; none where it does not apply to this episode.
    pub value: Option<f64>,
}

/// An episode that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// The row that the stage would write of it.
    pub trajectory: Trajectory,
    /// What was to be solved.
    pub problem: Problem,
    /// Whether the answer is right.
    pub correct: bool,
    /// All components of the stage's reward, in the order of its options.
    pub components: Vec<Component>,
}
