//! The traits of environments: they pose a problem and answer the agent's turns until the episode ends.
//!
//! Episodes are polled because tools run while other sequences decode. Turns are text; the sampling loop keeps the
//! tokens.

use crate::environments::ProblemGenerator;
use crate::formats::{AgentTurn, ToolFormat};
use crate::tools::ToolSpec;
use std::time::Duration;
use trainyard_core::Result;
use trainyard_tables::{Message, Problem, Status, StopReason};

/// What the agent sees after its turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observation {
    /// Messages to append: the tool results (role `tool`, one per call), then what the environment adds.
    pub messages: Vec<Message>,
    /// Calls answered by this observation, including unreadable ones.
    pub tool_calls: u32,
    /// How many of them failed.
    pub tool_errors: u32,
}

/// What the agent is asked, where a program keeps the conversation: all of it, as the program sees it.
///
/// Calls of assistants stand in `tool_calls` as JSON text, `[{"name", "arguments"}]`, whoever wrote them; results of
/// tools stand in the order of their calls and name none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Asked {
    /// The messages as the program sees them. The loop compares them with those that it knows.
    pub messages: Vec<Message>,
    /// The same messages as the chat template is to get them, where they are new: tools described, calls written.
    pub written: Vec<Message>,
    /// JSON text of the tools that the template describes.
    pub tools: Option<String>,
    /// Most tokens of the answer, if the program says so.
    pub max_tokens: Option<usize>,
}

/// How a program sees a turn of the agent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Read {
    /// The turn with its calls.
    pub turn: AgentTurn,
    /// The message that the program gets, and sends back with its next call.
    pub message: Message,
}

/// The tokens of a turn, for programs that ask for them. Lists of the turn have one length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TurnTokens {
    /// What the turn continues.
    pub prompt: Vec<u32>,
    /// The end of its text, which may open a thought.
    pub opened: String,
    /// The turn, the token that ends it included.
    pub ids: Vec<u32>,
    /// The text of each token by itself.
    pub texts: Vec<String>,
    /// As it was sampled; NaN where the sampler cannot tell.
    pub logprobs: Vec<f32>,
    /// The turn was cut at a limit of tokens.
    pub cut: bool,
}

/// What became of the calls of a program, beside those that were answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallCounts {
    /// Calls that got no answer because the episode had ended, and answers that nobody waited for any more.
    pub dropped: u32,
    /// Calls that were refused with an error.
    pub refused: u32,
    /// Calls that asked for a way of sampling that is not the policy's, and were answered without it.
    pub ignored: u32,
}

/// How an episode ended, with counts over the whole episode.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// The final answer as the environment read it.
    pub answer: Option<String>,
    /// Why it ended.
    pub stop: StopReason,
    /// Whether it may be learned from.
    pub status: Status,
    /// Agent turns taken.
    pub turns: u32,
    /// Tool calls made, including unreadable ones.
    pub tool_calls: u32,
    /// How many of them failed.
    pub tool_errors: u32,
    /// A call hit its wall-clock limit and no call was lost: the agent's own call did this. `status` is
    /// `infrastructure` nevertheless, because the limit is not repeatable; callers may go on without such an episode.
    pub timed_out: bool,
    /// The episode's own word on its answer; none leaves it to [`Environment::verify`].
    pub correct: Option<bool>,
    /// The episode's own reward, for the reward `verdict`.
    pub reward: Option<f64>,
    /// Of a program that keeps the conversation.
    pub calls: CallCounts,
}

/// What follows a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Tools are running; call [`Episode::poll`].
    Pending,
    /// The agent's turn, where a program keeps the conversation: it may go on after any earlier turn, or after none.
    Asked(Asked),
    /// The agent's turn again, after this observation.
    Observe(Observation),
    /// The episode is over; no further step is allowed.
    Done(Outcome),
}

/// An environment with its options.
pub trait Environment: Send + Sync {
    /// The registered `kind`.
    fn kind(&self) -> &'static str;
    /// The tools it offers in every problem.
    fn tools(&self) -> Vec<ToolSpec>;
    /// How tool calls are written.
    fn format(&self) -> &dyn ToolFormat;
    /// Whether [`Environment::prompt`] tells how an episode begins. Otherwise a program keeps the conversation: an
    /// episode is polled for its first step, and all its steps are [`Step::Asked`].
    fn prompts(&self) -> bool {
        true
    }
    /// The opening messages: the problem's own and what the environment adds (tool descriptions).
    ///
    /// Errors: those of a program that is asked for them.
    fn prompt(&self, problem: &Problem) -> Result<Vec<Message>>;
    /// Starts an episode. `seed` determines everything random in it.
    fn start(&self, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>>;
    /// The largest number of agent turns in an episode.
    fn max_turns(&self) -> u32;
    /// Whether the agent talks to a user between its calls, so that words without a call do not end the episode.
    fn converses(&self) -> bool {
        false
    }
    /// Whether a final answer is right. Errors: of kind retryable, if what judges is away, else what it cannot judge;
    /// never a wrong answer.
    fn verify(&self, problem: &Problem, answer: &str) -> Result<bool>;
    /// Reads the final answer from an agent's last message.
    fn read_answer(&self, text: &str) -> Option<String>;
    /// The generator of problems for this environment and its options; `None` if problems come from data sets.
    fn generator(&self) -> Option<&dyn ProblemGenerator> {
        None
    }
}

/// An episode in progress.
pub trait Episode: Send {
    /// How the program reads a turn that answers its last call, where a program keeps the conversation; none leaves it
    /// to [`Environment::format`].
    fn read(&self, _text: &str) -> Option<Read> {
        None
    }
    /// Hears the tokens of the turn that the next step takes. Asked for only where a program keeps the conversation.
    fn hear(&mut self, _tokens: TurnTokens) {}
    /// Takes one agent turn. Tool calls are submitted and run in the background. A turn while results are pending or
    /// after the end is an error of kind `bug`.
    fn step(&mut self, turn: &AgentTurn) -> Result<Step>;
    /// While a step is pending: the step once all tool results have come, `None` until then. Blocks up to `wait`.
    ///
    /// Errors: those of the environment's own code, where it is a program of the user.
    fn poll(&mut self, wait: Duration) -> Result<Option<Step>>;
    /// A copy with the tools' state after the last completed call. Fails while a step is pending and after the end.
    fn fork(&self) -> Result<Box<dyn Episode>>;
}
