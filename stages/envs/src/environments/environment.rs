//! What an environment is: it poses a problem and answers the agent's turns until the episode ends.
//!
//! Why polling: tools run while other sequences decode, so a turn with a tool call is handed over and asked for later. Refuses:
//! tokens; the loop that samples keeps them.

use crate::environments::ProblemGenerator;
use crate::formats::ToolFormat;
use crate::tools::{ToolCall, ToolSpec};
use std::time::Duration;
use trainyard_core::Result;
use trainyard_tables::{Message, Problem, Status, StopReason};

/// One turn of the agent, as its tool format read it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentTurn {
    /// The whole turn as sampled, markup included, without the end token.
    pub text: String,
    /// Tool calls in order; an error is what the agent is told about a call that cannot be read.
    pub calls: Vec<Result<ToolCall, String>>,
    /// The sampler ran into a token limit before the turn ended. Set by the sampler.
    pub truncated: bool,
}

impl AgentTurn {
    /// The calls as JSON text for [`Message::tool_calls`]; none if the turn has no call that could be read.
    pub fn calls_json(&self) -> Option<String> {
        let calls: Vec<&ToolCall> = self.calls.iter().flatten().collect();
        if calls.is_empty() { None } else { serde_json::to_string(&calls).ok() }
    }
    /// The assistant message of this turn.
    pub fn message(&self) -> Message {
        Message { role: "assistant".to_string(), content: self.text.clone(), tool_calls: self.calls_json() }
    }
}

/// What the agent sees after its turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observation {
    /// Messages to append (role `tool`, one per call).
    pub messages: Vec<Message>,
    /// Calls answered by this observation, unreadable ones included.
    pub tool_calls: u32,
    /// Of these, the ones that failed.
    pub tool_errors: u32,
}

/// How the episode ended. The counts are those of the whole episode.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// The final answer as the environment read it.
    pub answer: Option<String>,
    pub stop: StopReason,
    pub status: Status,
    /// Agent turns taken.
    pub turns: u32,
    pub tool_calls: u32,
    pub tool_errors: u32,
    /// A call ran into its wall-clock limit, and nothing was lost: what the agent called did this. `status` is `infrastructure` all the
    /// same, because the limit is not repeatable; who has no use for such an episode may still go on without it.
    pub timed_out: bool,
}

/// What follows a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Tools are running; ask [`Episode::poll`].
    Pending,
    /// The agent's turn again, after these messages.
    Observe(Observation),
    /// The episode is over; no further step is allowed.
    Done(Outcome),
}

/// One kind of world with its options.
pub trait Environment: Send + Sync {
    /// The `kind` it is registered under.
    fn kind(&self) -> &'static str;
    fn tools(&self) -> Vec<ToolSpec>;
    fn format(&self) -> &dyn ToolFormat;
    /// The messages that open the episode: the problem's own, plus what the environment adds (tool descriptions).
    fn prompt(&self, problem: &Problem) -> Vec<Message>;
    /// A fresh episode. `seed` feeds whatever chance the world has; equal seeds give equal worlds.
    fn start(&self, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>>;
    fn max_turns(&self) -> u32;
    /// Whether the agent talks to a user between its calls, so that words without a call are a turn like others.
    fn converses(&self) -> bool {
        false
    }
    /// Whether a final answer is right.
    fn verify(&self, problem: &Problem, answer: &str) -> bool;
    /// The final answer in an agent's last message, as this environment reads it.
    fn read_answer(&self, text: &str) -> Option<String>;
    /// What makes problems for this environment with these options; none if its problems come from data sets.
    fn generator(&self) -> Option<&dyn ProblemGenerator> {
        None
    }
}

/// One episode in progress.
pub trait Episode: Send {
    /// Hands over one agent turn. Tool calls are submitted to the tool host and run in the background. A turn that comes while
    /// results are pending or after the end is an error of kind bug.
    fn step(&mut self, turn: &AgentTurn) -> Result<Step>;
    /// While a step is pending: some step when the tool results are there, none while they run. Blocks up to `wait`.
    fn poll(&mut self, wait: Duration) -> Option<Step>;
    /// A copy with the tools' state as after the last completed call. An error while a step is pending or after the end.
    fn fork(&self) -> Result<Box<dyn Episode>>;
}
