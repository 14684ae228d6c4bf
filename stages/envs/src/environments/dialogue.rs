//! Implements the dialogue that question environments share: a turn with tool calls is followed by their results,
//! and a turn without calls is the answer.
//!
//! - Without tools, every turn is an answer, regardless of its form.
//! - An unreadable call, or a call to an unknown tool, gets an error message that the agent sees.
//! - An environment may add an [`EpisodeState`] with custom tools, which also decides whether the episode continues.
//! - An empty turn ends the episode with `end`, a truncated turn with `length`.
//! - Calls in the last allowed turn end the episode with `turns`, calls beyond the limit with `tool_limit`; neither are
//!   run.
//! - With a latency, the dialogue holds results back for a drawn time. Only the time of their delivery depends on the
//!   clock.
//! - A call that was lost or hit its wall-clock limit ends the episode as an infrastructure failure, because its result
//!   is not repeatable and must not enter an update. The outcome reports which of the two happened.

use crate::Toolbox;
use crate::environments::episode_state::ToolSessions;
use crate::environments::{
    AfterTurn, DialogueOptions, EnvironmentSetup, Episode, EpisodeState, EpisodeStep, Observation, Outcome,
};
use crate::formats::text::PlainTextFormat;
use crate::formats::{AgentTurn, ToolFormat};
use crate::programs::verifier::CustomVerifier;
use crate::tools::{AgentTool, PendingToolResult, ToolCall, ToolHost, ToolResult, ToolSession, ToolSpec};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Clock, Error, Result, SystemClock};
use trainyard_tables::{AnswerCheck, EpisodeStatus, Message, Problem, StopReason};

/// State shared by all episodes of one environment.
pub struct Dialogue {
    options: DialogueOptions,
    pub(crate) host: Arc<ToolHost>,
    toolbox: Arc<Toolbox>,
    /// Tools of the options.
    tools: Vec<Box<dyn AgentTool>>,
    /// Index into `tools` of the owner of each of the first specs in `specs`.
    owners: Vec<usize>,
    /// Descriptions of `tools`, then of the environment's own tools.
    specs: Vec<ToolSpec>,
    format: Box<dyn ToolFormat>,
    read_answer: fn(&str) -> Option<String>,
    /// Verifier that overrides those that problems name.
    verifier: Option<CustomVerifier>,
    /// Clock of the latency.
    clock: Arc<dyn Clock>,
}

impl Dialogue {
    /// Returns a dialogue with the tools of the options. Starts user programs and servers that supply tools.
    pub fn new(
        options: DialogueOptions,
        setup: &EnvironmentSetup,
        read_answer: fn(&str) -> Option<String>,
    ) -> Result<Arc<Self>> {
        Self::with_tools(options, setup, &[], read_answer)
    }
    /// Returns a dialogue with the tools of the options and `environment_tools`, whose calls the state of an episode
    /// must handle. `read_answer` reads the answer in a turn without calls. Starts user programs and servers that
    /// supply tools.
    ///
    /// Errors: those of tools and the format; invalid, if two tools have the same name.
    pub fn with_tools(
        options: DialogueOptions,
        setup: &EnvironmentSetup,
        environment_tools: &[ToolSpec],
        read_answer: fn(&str) -> Option<String>,
    ) -> Result<Arc<Self>> {
        let (host, toolbox) = (Arc::clone(&setup.host), Arc::clone(&setup.toolbox));
        let tools = options.tools.iter().map(|choice| toolbox.chosen_tool(choice)).collect::<Result<Vec<_>>>()?;
        let mut specs = Vec::new();
        let mut owners = Vec::new();
        for (index, tool) in tools.iter().enumerate() {
            let offered = tool.offered(&host)?;
            owners.resize(owners.len() + offered.len(), index);
            specs.extend(offered);
        }
        specs.extend(environment_tools.iter().cloned());
        expect_distinct(&specs)?;
        let format =
            if specs.is_empty() { Box::new(PlainTextFormat) } else { toolbox.format(&options.format, &specs)? };
        let clock = Arc::new(SystemClock::new());
        let verifier = options.verifier.clone().map(|options| CustomVerifier::new(options, host.secrets(), host.log()));
        Ok(Arc::new(Self { options, host, toolbox, tools, owners, specs, format, read_answer, verifier, clock }))
    }
    pub fn options(&self) -> &DialogueOptions {
        &self.options
    }
    /// Returns the descriptions of all tools.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.specs.clone()
    }
    /// Returns a call of the first tool with this text; `None` if there is no tool or the first one takes no text.
    pub fn call(&self, text: &str) -> Option<ToolCall> {
        let spec = self.specs.first()?;
        let argument = spec.main_argument()?;
        Some(ToolCall { name: spec.name.clone(), arguments: json!({ argument: text }) })
    }
    /// Returns a call of the named tool with this text; `None` if the tool is unknown or takes no text.
    pub fn call_of(&self, name: &str, text: &str) -> Option<ToolCall> {
        let argument = self.specs.iter().find(|s| s.name == name)?.main_argument()?;
        Some(ToolCall { name: name.to_string(), arguments: json!({ argument: text }) })
    }
    /// Returns the final answer in an agent's last message; `None` if the message contains no answer.
    pub fn read_answer(&self, text: &str) -> Option<String> {
        (self.read_answer)(text)
    }
    /// Checks an answer by the verifier of the options or, without one, by the verifier that the problem names.
    pub fn check_answer(&self, problem: &Problem, answer: &str) -> Result<AnswerCheck> {
        match &self.verifier {
            Some(verifier) => verifier.check_answer(problem, answer),
            None => self.toolbox.check_answer(problem, self.options.extract, answer),
        }
    }
    /// Returns the tool-call format.
    pub fn format(&self) -> &dyn ToolFormat {
        &*self.format
    }
    /// Returns the system message, if any, then the problem's messages. The system message describes the tools if the
    /// option `describe_tools` is set.
    pub fn prompt(&self, problem: &Problem) -> Vec<Message> {
        let mut system = self.options.system.clone();
        if self.options.describe_tools && !self.specs.is_empty() {
            if !system.is_empty() {
                system.push_str("\n\n");
            }
            system.push_str(&self.format.describe(&self.specs));
        }
        let head = (!system.is_empty()).then(|| Message::new("system", system));
        head.into_iter().chain(problem.messages.iter().cloned()).collect()
    }
    /// Starts an episode with only the tools of the options. The seed determines only the latency.
    pub fn start(self: &Arc<Self>, seed: u64) -> Result<Box<dyn Episode>> {
        self.open(None, seed)
    }
    /// Starts an episode with a session for each of the environment's tools, in the order of their specs. Fails with
    /// kind `bug` if their numbers differ.
    pub fn start_with(self: &Arc<Self>, sessions: Vec<Box<dyn ToolSession>>, seed: u64) -> Result<Box<dyn Episode>> {
        let names = self.specs[self.owners.len()..].iter().map(|spec| spec.name.clone());
        if names.len() != sessions.len() {
            return Err(Error::bug(format!(
                "{} sessions for {} tools of the environment",
                sessions.len(),
                names.len()
            )));
        }
        self.start_in(Box::new(ToolSessions::new(names.zip(sessions))), seed)
    }
    /// Starts an episode in which this state handles the calls of the environment's tools and the turns without calls.
    pub fn start_in(self: &Arc<Self>, environment_state: Box<dyn EpisodeState>, seed: u64) -> Result<Box<dyn Episode>> {
        self.open(Some(environment_state), seed)
    }
    fn open(self: &Arc<Self>, environment_state: Option<Box<dyn EpisodeState>>, seed: u64) -> Result<Box<dyn Episode>> {
        if environment_state.is_none() && self.specs.len() > self.owners.len() {
            return Err(Error::bug("an episode with tools of the environment was started without a state for them"));
        }
        let mut sessions = Vec::with_capacity(self.tools.len());
        for tool in &self.tools {
            sessions.push(tool.open(&self.host, &self.options.limits)?);
        }
        let dialogue = Arc::clone(self);
        Ok(Box::new(DialogueEpisode {
            dialogue,
            sessions,
            environment_state,
            seed,
            phase: DialoguePhase::Agent,
            turns: 0,
            tool_calls: 0,
            tool_errors: 0,
        }))
    }
    /// Returns the time until which the results of a turn that starts now are held back; `None` without a latency.
    fn held_until(&self, seed: u64, turn: u32) -> Option<Duration> {
        self.options.latency.map(|latency| self.clock.monotonic() + latency.of_turn(seed, turn))
    }
    /// Sleeps until `deadline`, but at most for `wait`. Returns whether `deadline` has passed.
    fn sleep_until(&self, deadline: Duration, wait: Duration) -> bool {
        let remaining = deadline.saturating_sub(self.clock.monotonic());
        std::thread::sleep(remaining.min(wait));
        remaining <= wait
    }
}

/// Rejects tools of equal names, which calls could not distinguish.
fn expect_distinct(specs: &[ToolSpec]) -> Result<()> {
    let duplicate = specs.iter().enumerate().find(|(i, spec)| specs[..*i].iter().any(|other| other.name == spec.name));
    duplicate.map_or(Ok(()), |(_, spec)| {
        let message = format!("two tools of the environment have the name `{}`", spec.name);
        Err(Error::invalid(message).help("remove one of them, or rename it"))
    })
}

/// Phase of an episode: the agent's turn, running tools, or the end.
enum DialoguePhase {
    Agent,
    /// Pending results and those that have arrived, in call order, and the time until which they are held back.
    Tools {
        pending: VecDeque<PendingToolResult>,
        results: Vec<ToolResult>,
        held_until: Option<Duration>,
        /// Text of the turn, if it has no calls and the environment's state replies to it.
        text: Option<String>,
    },
    Ended,
}

struct DialogueEpisode {
    dialogue: Arc<Dialogue>,
    /// Sessions of the tools of the options, in their order.
    sessions: Vec<Box<dyn ToolSession>>,
    /// State that the environment adds, if any.
    environment_state: Option<Box<dyn EpisodeState>>,
    seed: u64,
    phase: DialoguePhase,
    turns: u32,
    tool_calls: u32,
    tool_errors: u32,
}

impl DialogueEpisode {
    fn end(&mut self, stop: StopReason, answer: Option<String>) -> EpisodeStep {
        EpisodeStep::Done(Outcome { answer, stop, ..self.finish() })
    }
    /// Ends the episode as an infrastructure failure because a call was lost or, if `timed_out`, late.
    fn end_interrupted(&mut self, timed_out: bool) -> EpisodeStep {
        EpisodeStep::Done(Outcome {
            stop: StopReason::Error,
            status: EpisodeStatus::Infrastructure,
            timed_out,
            ..self.finish()
        })
    }
    /// Ends the episode and returns its counts.
    fn finish(&mut self) -> Outcome {
        self.phase = DialoguePhase::Ended;
        let Self { turns, tool_calls, tool_errors, .. } = *self;
        Outcome { turns, tool_calls, tool_errors, ..Outcome::default() }
    }
    /// Submits every call of a turn to its tool. A call that is unreadable or names an unknown tool gets its error
    /// immediately.
    fn submit(&mut self, turn: &AgentTurn) -> VecDeque<PendingToolResult> {
        let Self { dialogue, sessions, environment_state, .. } = self;
        let calls = turn.calls.iter().map(|call| match call {
            Err(message) => PendingToolResult::ready(ToolResult::error(message.clone())),
            Ok(call) => {
                match (dialogue.specs.iter().position(|spec| spec.name == call.name), &mut *environment_state) {
                    (Some(index), _) if index < dialogue.owners.len() => {
                        sessions[dialogue.owners[index]].submit_call(call)
                    }
                    (Some(_), Some(environment_state)) => environment_state.submit(call),
                    _ => {
                        let known: Vec<&str> = dialogue.specs.iter().map(|spec| spec.name.as_str()).collect();
                        PendingToolResult::ready(ToolResult::unknown_tool(&call.name, &known))
                    }
                }
            }
        });
        calls.collect()
    }
    /// Enters the phase in which the results of a turn are awaited. Returns the next step if all results have arrived
    /// already, otherwise `Pending`; does not block.
    fn wait_for(&mut self, pending: VecDeque<PendingToolResult>, text: Option<String>) -> Result<EpisodeStep> {
        let held_until = self.dialogue.held_until(self.seed, self.turns);
        self.phase = DialoguePhase::Tools { pending, results: Vec::new(), held_until, text };
        Ok(self.poll(Duration::ZERO)?.unwrap_or(EpisodeStep::Pending))
    }
    /// Processes the results of a turn once all have arrived: counts them and continues or ends the episode. `text` is
    /// the turn if it had no calls.
    ///
    /// Errors: failures that stop the stage.
    fn observe(&mut self, results: Vec<ToolResult>, text: Option<String>) -> Result<EpisodeStep> {
        let state_failure = self.environment_state.as_mut().and_then(|state| state.failure());
        if let Some(failure) = state_failure.or_else(|| self.sessions.iter_mut().find_map(|session| session.failure()))
        {
            self.phase = DialoguePhase::Ended;
            return Err(failure);
        }
        let calls = if text.is_some() { &[] } else { results.as_slice() };
        let errors = calls.iter().filter(|r| r.error).count() as u32;
        self.tool_calls += calls.len() as u32;
        self.tool_errors += errors;
        let lost = results.iter().any(|r| r.infrastructure);
        if lost || results.iter().any(|r| r.timed_out) {
            return Ok(self.end_interrupted(!lost));
        }
        if let Some(text) = text {
            return Ok(self.handle_text(&text));
        }
        let after_turn = self
            .environment_state
            .as_mut()
            .map_or_else(|| AfterTurn::Continue(Vec::new()), |state| state.after_calls(&results));
        let tool_calls = results.len() as u32;
        let messages = results.into_iter().map(|r| Message::new("tool", r.text)).collect();
        Ok(self.apply_after_turn(after_turn, Observation { messages, tool_calls, tool_errors: errors }))
    }
    /// Handles a turn without calls: passes it to the environment's state; the turn is the answer if the environment
    /// has no state or leaves the turn to the dialogue.
    fn handle_text(&mut self, text: &str) -> EpisodeStep {
        match self.environment_state.as_mut().and_then(|state| state.after_text(text)) {
            Some(reply) => self.apply_after_turn(reply, Observation::default()),
            None => self.end_with_answer(self.dialogue.read_answer(text)),
        }
    }
    fn end_with_answer(&mut self, answer: Option<String>) -> EpisodeStep {
        let stop = if answer.is_some() { StopReason::Answer } else { StopReason::End };
        self.end(stop, answer)
    }
    fn apply_after_turn(&mut self, after_turn: AfterTurn, mut observation: Observation) -> EpisodeStep {
        match after_turn {
            AfterTurn::End(answer) => self.end_with_answer(answer),
            // Only a turn without calls reaches this arm as the last turn.
            AfterTurn::Continue(_) if self.turns >= self.dialogue.options.max_turns => {
                self.end(StopReason::Turns, None)
            }
            AfterTurn::Continue(messages) => {
                self.phase = DialoguePhase::Agent;
                observation.messages.extend(messages);
                EpisodeStep::Observe(observation)
            }
        }
    }
}

impl Episode for DialogueEpisode {
    fn step(&mut self, turn: &AgentTurn) -> Result<EpisodeStep> {
        match self.phase {
            DialoguePhase::Agent => {}
            DialoguePhase::Tools { .. } => return Err(Error::bug("a turn was taken while tool results are pending")),
            DialoguePhase::Ended => return Err(Error::bug("a turn was taken after the end of the episode")),
        }
        self.turns += 1;
        if turn.truncated {
            return Ok(self.end(StopReason::Length, None));
        }
        if turn.calls.is_empty() {
            let Some(pending) = self.environment_state.as_mut().and_then(|state| state.submit_text(&turn.text)) else {
                return Ok(self.handle_text(&turn.text));
            };
            return self.wait_for([pending].into(), Some(turn.text.clone()));
        }
        if self.turns >= self.dialogue.options.max_turns {
            return Ok(self.end(StopReason::Turns, None));
        }
        if u64::from(self.tool_calls) + turn.calls.len() as u64 > u64::from(self.dialogue.options.max_tool_calls) {
            return Ok(self.end(StopReason::ToolLimit, None));
        }
        let pending = self.submit(turn);
        self.wait_for(pending, None)
    }
    fn poll(&mut self, wait: Duration) -> Result<Option<EpisodeStep>> {
        let DialoguePhase::Tools { pending, results, held_until, text } = &mut self.phase else {
            return Ok(None);
        };
        while let Some(next) = pending.front() {
            // Waits up to `wait` for each call, because `wait` need not be exact.
            let Some(result) = (if wait.is_zero() { next.poll() } else { next.wait(wait) }) else {
                return Ok(None);
            };
            results.push(result);
            pending.pop_front();
        }
        if held_until.is_some_and(|deadline| !self.dialogue.sleep_until(deadline, wait)) {
            return Ok(None);
        }
        let (results, text) = (std::mem::take(results), text.take());
        self.observe(results, text).map(Some)
    }
    fn fork(&self) -> Result<Box<dyn Episode>> {
        match self.phase {
            DialoguePhase::Agent => {}
            DialoguePhase::Tools { .. } => {
                return Err(Error::bug("an episode cannot be forked while tool results are pending"));
            }
            DialoguePhase::Ended => return Err(Error::bug("an episode cannot be forked after its end")),
        }
        let sessions = self.sessions.iter().map(|s| s.fork()).collect::<Result<Vec<_>>>()?;
        let environment_state = self.environment_state.as_ref().map(|w| w.fork()).transpose()?;
        let Self { seed, turns, tool_calls, tool_errors, .. } = *self;
        let dialogue = Arc::clone(&self.dialogue);
        Ok(Box::new(Self {
            dialogue,
            sessions,
            environment_state,
            seed,
            phase: DialoguePhase::Agent,
            turns,
            tool_calls,
            tool_errors,
        }))
    }
}

#[cfg(test)]
#[path = "dialogue_tests.rs"]
mod tests;
