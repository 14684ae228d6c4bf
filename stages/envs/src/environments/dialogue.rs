//! The dialogue that question environments share: a turn with tool calls gets their results, a turn without one is the answer.
//!
//! - A call that cannot be read, or names a tool that is not there, is answered with an error message that the agent sees.
//! - An environment may bring a [`World`]: tools of its own beside those of the registry, and a say in what follows a turn.
//! - An empty turn is void: the episode ends with `end`. A truncated turn ends it with `length`.
//! - Calls in the last allowed turn end it with `turns`, calls beyond the allowance with `tool_limit`; none of them runs.
//! - With a latency, results are held back for a drawn time. Only when they are seen depends on the clock.
//! - A call that was lost or ran into its wall-clock limit ends it as an infrastructure failure, because such a result is not
//!   repeatable and must not enter an update. The outcome tells which of the two it was.
//!
//! Refuses: a world that goes on beyond the limits; a step while results are pending, or after the end.

use crate::environments::world::Sessions;
use crate::environments::{AgentTurn, DialogueOptions, Episode, Observation, Outcome, Reply, Step, World};
use crate::formats::{ToolFormat, registry as formats};
use crate::tools::registry::tool;
use crate::tools::{Ticket, Tool, ToolCall, ToolHost, ToolResult, ToolSession, ToolSpec};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Clock, Error, Result, SystemClock};
use trainyard_tables::{Message, Problem, Status, StopReason};

/// What all episodes of one environment share.
pub struct Dialogue {
    options: DialogueOptions,
    host: Arc<ToolHost>,
    /// Those of the registry.
    tools: Vec<Box<dyn Tool>>,
    /// Of `tools`, then of the environment's own.
    specs: Vec<ToolSpec>,
    format: Box<dyn ToolFormat>,
    read_answer: fn(&str) -> Option<String>,
    /// Of the latency alone.
    clock: Arc<dyn Clock>,
}

impl Dialogue {
    /// A dialogue with the tools of the options.
    pub fn new(
        options: DialogueOptions,
        host: &Arc<ToolHost>,
        read_answer: fn(&str) -> Option<String>,
    ) -> Result<Arc<Self>> {
        Self::with_tools(options, host, &[], read_answer)
    }
    /// A dialogue with the tools of the options, then these of the environment; its episodes need a world for them.
    pub fn with_tools(
        options: DialogueOptions,
        host: &Arc<ToolHost>,
        own: &[ToolSpec],
        read_answer: fn(&str) -> Option<String>,
    ) -> Result<Arc<Self>> {
        let tools = options.tools.iter().map(|name| tool(name)).collect::<Result<Vec<_>>>()?;
        let specs = options.specs(own);
        let format = formats::build(&options.format, &specs)?;
        let clock = Arc::new(SystemClock::new());
        Ok(Arc::new(Self { options, host: Arc::clone(host), tools, specs, format, read_answer, clock }))
    }
    pub fn options(&self) -> &DialogueOptions {
        &self.options
    }
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.specs.clone()
    }
    /// A call of the first tool with this text; none if that tool takes no text.
    pub fn call(&self, text: &str) -> Option<ToolCall> {
        let spec = self.specs.first()?;
        let argument = spec.main_argument()?;
        Some(ToolCall { name: spec.name.clone(), arguments: json!({ argument: text }) })
    }
    /// A call of the tool of this name with this text; none if it is not there or takes no text.
    pub fn call_of(&self, name: &str, text: &str) -> Option<ToolCall> {
        let argument = self.specs.iter().find(|s| s.name == name)?.main_argument()?;
        Some(ToolCall { name: name.to_string(), arguments: json!({ argument: text }) })
    }
    /// The final answer in an agent's last message.
    pub fn read_answer(&self, text: &str) -> Option<String> {
        (self.read_answer)(text)
    }
    pub fn format(&self) -> &dyn ToolFormat {
        &*self.format
    }
    /// The system message, if there is one, then the problem's own messages.
    pub fn prompt(&self, problem: &Problem) -> Vec<Message> {
        let mut system = self.options.system.clone();
        if self.options.describe_tools {
            if !system.is_empty() {
                system.push_str("\n\n");
            }
            system.push_str(&self.format.describe(&self.specs));
        }
        let head = (!system.is_empty()).then(|| Message::new("system", system));
        head.into_iter().chain(problem.messages.iter().cloned()).collect()
    }
    /// An episode with the tools of the registry alone. Of its seed a dialogue draws the latency, nothing else.
    pub fn start(self: &Arc<Self>, seed: u64) -> Result<Box<dyn Episode>> {
        self.open(None, seed)
    }
    /// An episode whose own tools have these sessions, in the order of their specs.
    pub fn start_with(self: &Arc<Self>, sessions: Vec<Box<dyn ToolSession>>, seed: u64) -> Result<Box<dyn Episode>> {
        let names = self.specs[self.tools.len()..].iter().map(|spec| spec.name.clone());
        if names.len() != sessions.len() {
            return Err(Error::bug(format!(
                "{} sessions for {} tools of the environment",
                sessions.len(),
                names.len()
            )));
        }
        self.start_in(Box::new(Sessions::new(names.zip(sessions))), seed)
    }
    /// An episode in this world.
    pub fn start_in(self: &Arc<Self>, world: Box<dyn World>, seed: u64) -> Result<Box<dyn Episode>> {
        self.open(Some(world), seed)
    }
    fn open(self: &Arc<Self>, world: Option<Box<dyn World>>, seed: u64) -> Result<Box<dyn Episode>> {
        if world.is_none() && self.specs.len() > self.tools.len() {
            return Err(Error::bug("an episode of an environment with tools of its own was started without a world"));
        }
        let mut sessions = Vec::with_capacity(self.tools.len());
        for tool in &self.tools {
            sessions.push(tool.open(&self.host, &self.options.limits)?);
        }
        let dialogue = Arc::clone(self);
        Ok(Box::new(DialogueEpisode {
            dialogue,
            sessions,
            world,
            seed,
            state: State::Agent,
            turns: 0,
            tool_calls: 0,
            tool_errors: 0,
        }))
    }
    /// When the results of a turn whose calls start now may be seen, by the clock. None = as soon as they are there.
    fn held_until(&self, seed: u64, turn: u32) -> Option<Duration> {
        self.options.latency.map(|latency| self.clock.monotonic() + latency.of_turn(seed, turn))
    }
    /// Sleeps until then, but no longer than `wait`. Whether the time has come.
    fn sleep_until(&self, then: Duration, wait: Duration) -> bool {
        let left = then.saturating_sub(self.clock.monotonic());
        std::thread::sleep(left.min(wait));
        left <= wait
    }
}

/// Whose move it is.
enum State {
    Agent,
    /// Results still to come, those that came, in the order of the calls; when they may be seen, if that is not at once.
    Tools {
        awaited: VecDeque<Ticket>,
        came: Vec<ToolResult>,
        held_until: Option<Duration>,
    },
    Over,
}

struct DialogueEpisode {
    dialogue: Arc<Dialogue>,
    /// One per tool of the registry, in the order of the options.
    sessions: Vec<Box<dyn ToolSession>>,
    world: Option<Box<dyn World>>,
    seed: u64,
    state: State,
    turns: u32,
    tool_calls: u32,
    tool_errors: u32,
}

impl DialogueEpisode {
    fn end(&mut self, stop: StopReason, answer: Option<String>) -> Step {
        Step::Done(Outcome { answer, stop, ..self.over() })
    }
    /// A call was lost or not in time.
    fn broken_off(&mut self, timed_out: bool) -> Step {
        Step::Done(Outcome { stop: StopReason::Error, status: Status::Infrastructure, timed_out, ..self.over() })
    }
    /// No turn is taken any more; what was counted.
    fn over(&mut self) -> Outcome {
        self.state = State::Over;
        let Self { turns, tool_calls, tool_errors, .. } = *self;
        Outcome { turns, tool_calls, tool_errors, ..Outcome::default() }
    }
    /// Hands every call of a turn to its tool; one that cannot be run is answered at once.
    fn submit(&mut self, turn: &AgentTurn) -> VecDeque<Ticket> {
        let Self { dialogue, sessions, world, .. } = self;
        let calls = turn.calls.iter().map(|call| match call {
            Err(message) => Ticket::ready(ToolResult::error(message.clone())),
            Ok(call) => match (dialogue.specs.iter().position(|spec| spec.name == call.name), &mut *world) {
                (Some(index), _) if index < sessions.len() => sessions[index].submit(&call.arguments),
                (Some(_), Some(world)) => world.submit(call),
                _ => {
                    let known: Vec<&str> = dialogue.specs.iter().map(|spec| spec.name.as_str()).collect();
                    Ticket::ready(ToolResult::unknown_tool(&call.name, &known))
                }
            },
        });
        calls.collect()
    }
    /// All results are there.
    fn observe(&mut self, results: Vec<ToolResult>) -> Step {
        let errors = results.iter().filter(|r| r.error).count() as u32;
        self.tool_calls += results.len() as u32;
        self.tool_errors += errors;
        let lost = results.iter().any(|r| r.infrastructure);
        if lost || results.iter().any(|r| r.timed_out) {
            return self.broken_off(!lost);
        }
        let reply = self.world.as_mut().map_or_else(|| Reply::GoOn(Vec::new()), |world| world.after_calls(&results));
        let tool_calls = results.len() as u32;
        let messages = results.into_iter().map(|r| Message::new("tool", r.text)).collect();
        self.follow(reply, Observation { messages, tool_calls, tool_errors: errors })
    }
    /// A turn without a call: the world's affair, or else the answer.
    fn spoken(&mut self, text: &str) -> Step {
        match self.world.as_mut().and_then(|world| world.after_text(text)) {
            Some(reply) => self.follow(reply, Observation::default()),
            None => self.answered(self.dialogue.read_answer(text)),
        }
    }
    fn answered(&mut self, answer: Option<String>) -> Step {
        let stop = if answer.is_some() { StopReason::Answer } else { StopReason::End };
        self.end(stop, answer)
    }
    fn follow(&mut self, reply: Reply, mut seen: Observation) -> Step {
        match reply {
            Reply::End(answer) => self.answered(answer),
            // Only a turn without a call gets here as the last one.
            Reply::GoOn(_) if self.turns >= self.dialogue.options.max_turns => self.end(StopReason::Turns, None),
            Reply::GoOn(messages) => {
                self.state = State::Agent;
                seen.messages.extend(messages);
                Step::Observe(seen)
            }
        }
    }
}

impl Episode for DialogueEpisode {
    fn step(&mut self, turn: &AgentTurn) -> Result<Step> {
        match self.state {
            State::Agent => {}
            State::Tools { .. } => return Err(Error::bug("a turn was handed over while tool results are pending")),
            State::Over => return Err(Error::bug("a turn was handed over after the end of the episode")),
        }
        self.turns += 1;
        if turn.truncated {
            return Ok(self.end(StopReason::Length, None));
        }
        if turn.calls.is_empty() {
            return Ok(self.spoken(&turn.text));
        }
        if self.turns >= self.dialogue.options.max_turns {
            return Ok(self.end(StopReason::Turns, None));
        }
        if u64::from(self.tool_calls) + turn.calls.len() as u64 > u64::from(self.dialogue.options.max_tool_calls) {
            return Ok(self.end(StopReason::ToolLimit, None));
        }
        let held_until = self.dialogue.held_until(self.seed, self.turns);
        self.state = State::Tools { awaited: self.submit(turn), came: Vec::new(), held_until };
        Ok(self.poll(Duration::ZERO).unwrap_or(Step::Pending))
    }
    fn poll(&mut self, wait: Duration) -> Option<Step> {
        let State::Tools { awaited, came, held_until } = &mut self.state else { return None };
        while let Some(ticket) = awaited.front() {
            // A wait may last as long per call; the caller asks for patience, not for precision.
            came.push(if wait.is_zero() { ticket.poll()? } else { ticket.wait(wait)? });
            awaited.pop_front();
        }
        if held_until.is_some_and(|then| !self.dialogue.sleep_until(then, wait)) {
            return None;
        }
        let results = std::mem::take(came);
        Some(self.observe(results))
    }
    fn fork(&self) -> Result<Box<dyn Episode>> {
        match self.state {
            State::Agent => {}
            State::Tools { .. } => {
                return Err(Error::bug("an episode cannot be forked while tool results are pending"));
            }
            State::Over => return Err(Error::bug("an episode cannot be forked after its end")),
        }
        let sessions = self.sessions.iter().map(|s| s.fork()).collect::<Result<Vec<_>>>()?;
        let world = self.world.as_ref().map(|w| w.fork()).transpose()?;
        let Self { seed, turns, tool_calls, tool_errors, .. } = *self;
        let dialogue = Arc::clone(&self.dialogue);
        Ok(Box::new(Self { dialogue, sessions, world, seed, state: State::Agent, turns, tool_calls, tool_errors }))
    }
}

#[cfg(test)]
#[path = "dialogue_tests.rs"]
mod tests;
