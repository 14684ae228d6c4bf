//! Defines the row of a `trajectories` artifact: the rollout record, `rollout_format: 1` (`docs/design/0005`). Later
//! versions only add columns.

use crate::answer_check::AnswerCheck;
use crate::problem::Message;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// Reason for the end of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The agent gave a final answer.
    #[default]
    Answer,
    /// The agent ended its turn with neither a tool call nor an answer.
    End,
    /// The agent reached the token limit of the episode or turn.
    Length,
    /// The agent reached the turn limit.
    Turns,
    /// The agent reached the limit of tool calls.
    ToolLimit,
    /// The environment failed.
    Error,
    /// The attempt was stopped.
    Cancelled,
}

/// Whether the episode counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpisodeStatus {
    /// The episode counts.
    #[default]
    Ok,
    /// A failure that is not the agent's fault (a wall-clock limit, a lost worker). Such episodes are counted
    /// separately, never scored 0 and never trained on.
    Infrastructure,
}

/// The distribution that tokens were sampled from.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SamplingParams {
    /// Temperature; 0 is greedy.
    pub temperature: f64,
    /// Nucleus sampling threshold; 1 is no truncation.
    pub top_p: f64,
    /// Number of most likely tokens; 0 is no truncation.
    pub top_k: u32,
}

/// A filter's verdict on one row.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// Name of the rule.
    pub rule: String,
    /// Whether the rule keeps the row.
    pub keep: bool,
    /// Reason for the verdict.
    pub reason: String,
}

/// One episode. All per-token lists have the same length, prompt included.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Trajectory {
    /// Id, unique within the artifact.
    pub id: String,
    /// Id of the problem.
    pub problem_id: String,
    /// Number of the group, whose rollouts share a baseline.
    pub group: u32,
    /// Index within the group.
    pub sample: u32,

    /// Token ids of the whole episode.
    pub token_ids: Vec<u32>,
    /// True for tokens that the policy sampled or the demonstrator wrote.
    pub loss_mask: Vec<bool>,
    /// Agent turn of each token, from 0.
    pub turn: Vec<u16>,
    /// Natural logarithm of the token's probability under the distribution it was sampled from; 0 where the mask is
    /// false; `None` if not recorded.
    pub logprobs: Option<Vec<f32>>,
    /// Entropy of that distribution in nats; 0 where the mask is false; `None` if not recorded.
    pub entropies: Option<Vec<f32>>,
    /// Version of the weights that sampled each token; `None` for demonstrations.
    pub weights_version: Option<Vec<u32>>,
    /// Advantage of each token; 0 where the mask is false; `None` before an update used the row.
    pub advantages: Option<Vec<f32>>,
    /// Number of prompt tokens at the beginning.
    pub prompt_tokens: u32,
    /// Start of each further context in the per-token lists: there the chat template rewrote earlier turns, so later
    /// tokens were sampled without the tokens before it in view.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<u32>,

    /// Rollout that this one was forked from; `None` at roots.
    pub fork_of: Option<String>,
    /// Index of the first token after the fork.
    pub fork_at: Option<u32>,

    /// Exclusive end token of each step.
    pub step_ends: Vec<u32>,
    /// Label of each step: the probability that it is correct, or 0 or 1; NaN if unlabeled.
    pub step_labels: Option<Vec<f32>>,
    /// Score of each step by a process reward model.
    pub step_scores: Option<Vec<f32>>,

    /// The conversation.
    pub messages: Vec<Message>,
    /// Offered tools, as JSON text of a list: `[{"type": "function", "function": {"name": …}}]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<String>,
    /// Tools of the environment, in the same form, where no message describes them: a template that describes tools
    /// itself receives these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_tools: Option<String>,
    /// Reward components by name.
    pub rewards: BTreeMap<String, f64>,
    /// Weighted sum of the components.
    pub reward: f64,
    /// Reward of each turn, if the environment returns any.
    pub turn_rewards: Vec<f64>,
    /// Reason for the end of the episode.
    pub stop_reason: StopReason,
    /// Whether the episode counts.
    pub status: EpisodeStatus,
    /// Number of agent turns.
    pub turns: u32,
    /// Number of tool calls.
    pub tool_calls: u32,
    /// Number of tool calls that failed.
    pub tool_errors: u32,
    /// Final answer as the environment parsed it, or as it was extracted from a longer text to be compared.
    pub answer: Option<String>,
    /// Comparison of the answer with the expected one; `None` if no verifier judged the row, and in files of versions
    /// before these columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_check: Option<AnswerCheck>,
    /// Difficulty of the problem, from 1; 0 if unknown.
    pub level: u32,
    /// Distribution that tokens were sampled from.
    pub sampling: SamplingParams,
    /// Kind of the environment.
    pub environment: String,
    /// Seed of the stage that made the row.
    pub seed: u64,
    /// Content digest of the model; `None` for demonstrations.
    pub model_digest: Option<String>,
    /// Digest of the tokenizer.
    pub tokenizer_digest: String,
    /// Digest of the chat template.
    pub template_digest: String,
    /// Verdicts of filters.
    pub verdicts: Vec<Verdict>,
    /// Direct sources: ids of the rows that this one was made from, or the places of files that it was read from.
    pub parents: Vec<String>,
    /// Number of the update, from 0, that this rollout was sampled for or taken into; `verdicts` record whether it
    /// entered the loss. `None` for rows that no update used, and in files of versions before this column.
    pub update: Option<u32>,
    /// Further columns of the imported row, as JSON text of an object by the names of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<String>,
}

impl Trajectory {
    /// Returns the contexts, each a separate sequence, as ranges in the per-token lists.
    pub fn contexts(&self) -> Vec<Range<usize>> {
        let ends = self.restarts.iter().map(|at| *at as usize).chain([self.token_ids.len()]);
        let mut start = 0;
        ends.map(|end| std::mem::replace(&mut start, end)..end).collect()
    }
    /// Returns the tokens of each context.
    pub fn sequences(&self) -> Vec<&[u32]> {
        self.contexts().into_iter().map(|context| &self.token_ids[context]).collect()
    }
    /// Returns the tokens before `end` that are in the same context, in view of the token at `end`.
    pub fn context_before(&self, end: usize) -> &[u32] {
        let start = self.restarts.iter().map(|at| *at as usize).rfind(|at| *at <= end).unwrap_or(0);
        &self.token_ids[start..end]
    }
}
