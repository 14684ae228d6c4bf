//! Defines the input of the rollout loop: episodes to run, and their limits.

use trainyard_learn::EpisodePrefix;

/// When an episode continues after its tools have answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolWait {
    /// At once, independent of other episodes (VerlTool, 2509.01055).
    #[default]
    Trajectory,
    /// When all sequences have ended their turns and all their tools have answered.
    Batch,
}

/// Limits of an episode, in tokens and turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpisodeLimits {
    /// Limit of tokens sampled in one turn.
    pub turn_tokens: usize,
    /// Limit of tokens of an episode: prompt, turns and observations.
    pub episode_tokens: usize,
    /// Limit of sequences decoded at the same time.
    pub running: usize,
    /// Memory limit of the keys and values of these sequences, in bytes.
    pub kv_memory: u64,
    /// Time at which an episode continues after the end of its tool calls.
    pub tool_wait: ToolWait,
}

/// Beginning of an episode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum EpisodeStart {
    /// At the prompt.
    #[default]
    Root,
    /// In the middle of an earlier episode: whole turns as sampled (stop token included), then the first tokens of the
    /// next one. The turns are replayed in a new environment, which responds identically.
    Prefix(EpisodePrefix),
}

/// One episode to run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EpisodeJob {
    /// Index in the list of problems.
    pub problem: usize,
    /// Number that distinguishes several groups of one problem. The problem's id, this number and `sample` are the key
    /// of draws, so an episode does not depend on the other problems in the list.
    pub draw: u64,
    /// Number of the group that the rollout belongs to.
    pub group: u32,
    /// Number of the rollout within its group; part of the key of its random draws.
    pub sample: u32,
    pub start: EpisodeStart,
    /// Text that is put before the problem while sampling and left out of the row; empty without such a text.
    pub scaffold: String,
    /// Turn limit; `None` = the environment's.
    pub max_turns: Option<u32>,
}

impl EpisodeJob {
    /// Creates the job of sample `sample` of a problem from its prompt, in the group with the problem's number.
    pub fn root(problem: usize, sample: u32) -> Self {
        Self { problem, group: problem as u32, sample, ..Self::default() }
    }
}
