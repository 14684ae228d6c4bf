//! The row of a `trajectories` artifact: the rollout record, `rollout_format: 1` (`docs/design/0005`). Columns are only ever added.

use crate::problem::Message;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A final answer was given.
    #[default]
    Answer,
    /// The agent ended its turn with neither call nor answer.
    End,
    /// The token limit of the episode or turn.
    Length,
    /// The turn limit.
    Turns,
    /// The tool-call limit.
    ToolLimit,
    /// The environment failed.
    Error,
    Cancelled,
}

/// Whether the episode counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    #[default]
    Ok,
    /// Not the agent's fault (a wall-clock limit, a lost worker): counted apart, never scored 0, never trained on.
    Infrastructure,
}

/// The distribution that was sampled from.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Sampling {
    /// 0 = greedy.
    pub temperature: f64,
    /// 1 = no truncation.
    pub top_p: f64,
    /// 0 = no truncation.
    pub top_k: u32,
}

/// A filter's judgment of one row.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verdict {
    pub rule: String,
    pub keep: bool,
    pub reason: String,
}

/// What happened in one episode. All per-token lists have one length, prompt included.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Trajectory {
    pub id: String,
    pub problem_id: String,
    /// Rollouts of one group share a baseline.
    pub group: u32,
    /// Index within the group.
    pub sample: u32,

    pub token_ids: Vec<u32>,
    /// True = sampled by the policy (or written by the demonstrator).
    pub loss_mask: Vec<bool>,
    /// Agent turn of each token, from 0.
    pub turn: Vec<u16>,
    /// Natural log of the probability under the distribution that was sampled from; 0 where the mask is false; none if never recorded.
    pub logprobs: Option<Vec<f32>>,
    /// Entropy in nats of that distribution; 0 where the mask is false.
    pub entropies: Option<Vec<f32>>,
    /// Weights that sampled each token; none for demonstrations.
    pub weights_version: Option<Vec<u32>>,
    pub advantages: Option<Vec<f32>>,
    pub prompt_tokens: u32,

    /// The rollout this one was forked from; none at roots.
    pub fork_of: Option<String>,
    /// The first token of its own.
    pub fork_at: Option<u32>,

    /// Exclusive end token of each step.
    pub step_ends: Vec<u32>,
    /// Probability or 0/1 that a step is right; NaN = unlabeled.
    pub step_labels: Option<Vec<f32>>,
    pub step_scores: Option<Vec<f32>>,

    pub messages: Vec<Message>,
    /// Every reward component by name.
    pub rewards: BTreeMap<String, f64>,
    pub reward: f64,
    pub turn_rewards: Vec<f64>,
    pub stop_reason: StopReason,
    pub status: Status,
    pub turns: u32,
    pub tool_calls: u32,
    pub tool_errors: u32,
    /// The final answer as the environment read it.
    pub answer: Option<String>,
    pub level: u32,
    pub sampling: Sampling,
    pub environment: String,
    pub seed: u64,
    pub model_digest: Option<String>,
    pub tokenizer_digest: String,
    pub template_digest: String,
    pub verdicts: Vec<Verdict>,
    /// Rows this one was made from.
    pub parents: Vec<String>,
    /// Number of the update, from 0, that this rollout was sampled for or taken into; `verdicts` say whether it entered the loss. None
    /// for rows that no update used, and in files of versions before this column.
    pub update: Option<u32>,
}
