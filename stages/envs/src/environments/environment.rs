//! Defines the traits of environments and episodes. An environment poses a problem; an episode responds to the agent's
//! turns until it ends.
//!
//! Episodes are polled because tools run while other sequences decode. Turns are text; the sampling loop keeps the
//! tokens.

use crate::environments::ProblemGenerator;
use crate::formats::{AgentTurn, ToolFormat};
use crate::tools::ToolSpec;
use std::time::Duration;
use trainyard_core::{Error, Result};
use trainyard_tables::{AnswerCheck, EpisodeStatus, Message, Problem, StopReason, TurnForm, TurnFormError};

/// Messages that the agent receives after its turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observation {
    /// Messages to append: the tool results (role `tool`, one per call), then the environment's messages.
    pub messages: Vec<Message>,
    /// Calls answered by this observation, including unreadable ones.
    pub tool_calls: u32,
    /// Number of failed calls among them.
    pub tool_errors: u32,
}

/// Request for a turn of the agent in an episode that a program drives. It contains the whole conversation as the
/// program sees it.
///
/// Calls of assistants are in `tool_calls` as JSON text, `[{"name", "arguments"}]`, regardless of their author; results
/// of tools are in the order of their calls and name none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentTurnRequest {
    /// The messages as the program sees them. The loop compares them with those that it knows.
    pub messages: Vec<Message>,
    /// The same messages as the chat template receives them where they are new, with descriptions of tools and rendered
    /// calls.
    pub template_messages: Vec<Message>,
    /// JSON text of the tools that the template describes.
    pub tools: Option<String>,
    /// Maximum number of tokens of the turn, if the program sets one.
    pub max_tokens: Option<usize>,
    /// Form that the turn must have, if the program gives one.
    pub form: Option<TurnForm>,
}

/// Turn of the agent as a program sees it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ParsedTurn {
    /// The turn with its calls.
    pub turn: AgentTurn,
    /// Message that the program receives, and sends back with its next call.
    pub message: Message,
}

/// Tokens of a turn, for programs that request them. All lists of the turn have one length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TurnTokens {
    /// Tokens that the turn continues.
    pub prompt: Vec<u32>,
    /// End of the prompt's text, which may open a thought.
    pub opened: String,
    /// Tokens of the turn, including the one that ends it.
    pub ids: Vec<u32>,
    /// Text of each single token.
    pub texts: Vec<String>,
    /// Log-probabilities at sampling; NaN where the sampler has no value.
    pub logprobs: Vec<f32>,
    /// Whether the turn was cut at a limit of tokens.
    pub cut: bool,
}

/// Counts of a program's model calls that did not get a normal response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallCounts {
    /// Calls without a response because the episode had ended, and responses whose caller no longer waited.
    pub dropped: u32,
    /// Calls that were rejected with an error.
    pub refused: u32,
    /// Calls that requested other sampling options than the policy's, which were ignored.
    pub ignored: u32,
}

/// End of an episode, with counts over the whole episode.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// The final answer as the environment read it.
    pub answer: Option<String>,
    pub stop: StopReason,
    /// Whether the episode may be used for training.
    pub status: EpisodeStatus,
    /// Agent turns taken.
    pub turns: u32,
    /// Tool calls made, including unreadable ones.
    pub tool_calls: u32,
    /// Number of failed calls among them.
    pub tool_errors: u32,
    /// Whether a call hit its wall-clock limit and no call was lost, so that the agent's call caused the end. `status`
    /// is `infrastructure` nevertheless, because the limit is not repeatable; callers may continue without such an
    /// episode.
    pub timed_out: bool,
    /// The episode's verdict on its answer; `None` leaves it to [`Environment::verify`].
    pub correct: Option<bool>,
    /// The episode's reward, for the reward `verdict`.
    pub reward: Option<f64>,
    /// Counts of calls of a program that drives the episode.
    pub calls: CallCounts,
}

/// Result of a step of an episode.
#[derive(Debug, Clone, PartialEq)]
pub enum EpisodeStep {
    /// Tools are running; call [`Episode::poll`].
    Pending,
    /// The agent's turn, in an episode that a program drives. The conversation of the request may continue after any
    /// earlier turn, or start anew.
    TurnRequest(AgentTurnRequest),
    /// The agent's turn again, after this observation.
    Observe(Observation),
    /// The episode is over; no further step is allowed.
    Done(Outcome),
}

/// An environment with its options.
pub trait Environment: Send + Sync {
    /// Returns the registered `kind`.
    fn kind(&self) -> &'static str;
    /// Returns the tools offered in every problem.
    fn tools(&self) -> Vec<ToolSpec>;
    /// Returns the tool-call format.
    fn format(&self) -> &dyn ToolFormat;
    /// Returns whether [`Environment::prompt`] defines how an episode begins. Otherwise a program drives the episode:
    /// callers poll it for its first step, and [`EpisodeStep::TurnRequest`] takes the place of
    /// [`EpisodeStep::Observe`].
    fn prompts(&self) -> bool {
        true
    }
    /// Returns the opening messages: the problem's and those that the environment adds (system message, tool
    /// descriptions).
    ///
    /// Errors: those of a program that supplies the messages. The program may receive a request.
    fn prompt(&self, problem: &Problem) -> Result<Vec<Message>>;
    /// Starts an episode. `seed` determines everything random in it.
    fn start(&self, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>>;
    /// Returns the largest number of agent turns in an episode.
    fn max_turns(&self) -> u32;
    /// Returns whether the agent talks to a user between its calls, so that words without a call do not end the
    /// episode.
    fn converses(&self) -> bool {
        false
    }
    /// Returns whether a final answer is correct. Errors: of kind retryable if the judge is unavailable, otherwise the
    /// judge's error; never because of an incorrect answer.
    fn verify(&self, problem: &Problem, answer: &str) -> Result<bool>;
    /// Compares a final answer with the expected one, and records what was compared by which verifier. Errors: those of
    /// [`Environment::verify`], which agrees with the check.
    fn check_answer(&self, problem: &Problem, answer: &str) -> Result<AnswerCheck> {
        let correct = self.verify(problem, answer)?;
        Ok(AnswerCheck::whole(&problem.answer, answer, self.kind(), correct))
    }
    /// Checks the answer of an ended episode. The episode's own verdict takes precedence over [`Environment::verify`];
    /// an episode without an answer is incorrect unless it says otherwise.
    fn check_outcome(&self, problem: &Problem, outcome: &Outcome) -> Result<AnswerCheck> {
        match (&outcome.answer, outcome.correct) {
            (Some(answer), Some(correct)) => Ok(AnswerCheck::whole(&problem.answer, answer, self.kind(), correct)),
            (Some(answer), None) => self.check_answer(problem, answer),
            (None, correct) => {
                let check = AnswerCheck::whole(&problem.answer, "", self.kind(), correct.unwrap_or(false));
                let unreadable = Some("the episode has no answer".to_string());
                Ok(AnswerCheck { extracted: None, unreadable, ..check })
            }
        }
    }
    /// Returns the final answer in an agent's last message; `None` if the message contains no answer.
    fn read_answer(&self, text: &str) -> Option<String>;
    /// Returns the generator of problems for this environment and its options; `None` if problems come from data sets.
    fn generator(&self) -> Option<&dyn ProblemGenerator> {
        None
    }
}

/// An episode in progress.
pub trait Episode: Send {
    /// Returns the reply to the last model call of the program that drives the episode, as the program would read it
    /// from the text of a turn. `None` leaves the parsing to [`Environment::format`].
    fn read(&self, _text: &str) -> Option<ParsedTurn> {
        None
    }
    /// Receives the tokens of the turn that the next step takes. Called only in an episode that a program drives.
    fn record_tokens(&mut self, _tokens: TurnTokens) {}
    /// Refuses the last [`EpisodeStep::TurnRequest`], whose form a turn cannot have, and returns the next step.
    fn refuse(&mut self, refusal: TurnFormError) -> Result<EpisodeStep> {
        Err(Error::bug(format!("an episode without a program cannot refuse a form: {}", refusal.error)))
    }
    /// Takes one agent turn. Tool calls are submitted and run in the background. A turn while results are pending or
    /// after the end is an error of kind `bug`.
    fn step(&mut self, turn: &AgentTurn) -> Result<EpisodeStep>;
    /// Polls a pending step: returns the step once all tool results have arrived, `None` until then. Blocks up to
    /// `wait`.
    ///
    /// Errors: those of the environment's code, where it is a user program.
    fn poll(&mut self, wait: Duration) -> Result<Option<EpisodeStep>>;
    /// Returns a copy with the tools' state after the last completed call. Fails with kind `bug` while a step is
    /// pending and after the end.
    fn fork(&self) -> Result<Box<dyn Episode>>;
}
