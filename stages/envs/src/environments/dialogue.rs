//! The dialogue that question environments share: a turn with tool calls gets their results, a turn without one is the answer.
//!
//! - A call that cannot be read, or names a tool that is not there, is answered with an error message that the agent sees.
//! - An empty turn is void: the episode ends with `end`. A truncated turn ends it with `length`.
//! - Calls in the last allowed turn end it with `turns`, calls beyond the allowance with `tool_limit`; none of them runs.
//! - A call that was lost or ran into its wall-clock limit ends it as an infrastructure failure, because such a result is not
//!   repeatable and must not enter an update.
//!
//! Refuses: a step while results are pending, or after the end.

use crate::environments::{AgentTurn, Episode, Observation, Outcome, Step};
use crate::formats::{ToolFormat, registry as formats};
use crate::tools::registry::{names as tool_names, tool};
use crate::tools::{Ticket, Tool, ToolHost, ToolLimits, ToolResult, ToolSession, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_tables::{Message, Problem, Status, StopReason};

/// Options of a dialogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DialogueOptions {
    /// Tools that the agent may call: `python`, `calculator`.
    pub tools: Vec<String>,
    /// How calls are written: `code` (raw code, one tool) or `hermes` (JSON).
    pub format: String,
    /// Agent turns in one episode, the answer included.
    #[schemars(range(min = 1, max = 1000))]
    pub max_turns: u32,
    /// Tool calls in one episode.
    #[schemars(range(min = 0, max = 10_000))]
    pub max_tool_calls: u32,
    /// Text of a system message; empty = none.
    pub system: String,
    /// Put the description of the tools into the system message. A small model that is trained on one tool needs none.
    pub describe_tools: bool,
    /// Limits of one tool call.
    pub limits: ToolLimits,
}

impl Default for DialogueOptions {
    fn default() -> Self {
        Self {
            tools: vec!["python".to_string()],
            format: "code".to_string(),
            max_turns: 4,
            max_tool_calls: 8,
            system: String::new(),
            describe_tools: false,
            limits: ToolLimits::default(),
        }
    }
}

impl DialogueOptions {
    /// Everything out of range or contradictory.
    pub fn check(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        for (index, name) in self.tools.iter().enumerate() {
            if let Err(e) = tool(name) {
                problems.push(OptionProblem { pointer: format!("/tools/{index}"), message: e.message, help: e.help });
            } else if self.tools[..index].contains(name) {
                problems.push(OptionProblem::new(format!("/tools/{index}"), format!("tool `{name}` is listed twice")));
            }
        }
        if self.tools.is_empty() {
            problems.push(OptionProblem::new("/tools", "no tool is listed").help(format!("use some of: {}", tool_names().join(", "))));
        } else if problems.is_empty()
            && let Err(e) = formats::build(&self.format, &self.specs())
        {
            problems.push(OptionProblem { pointer: "/format".to_string(), message: e.message, help: e.help });
        }
        if !(1..=1000).contains(&self.max_turns) {
            problems
                .push(OptionProblem::new("/max_turns", format!("{} is out of range", self.max_turns)).help("use a value from 1 to 1000"));
        }
        if self.max_tool_calls > 10_000 {
            problems
                .push(OptionProblem::new("/max_tool_calls", format!("{} is out of range", self.max_tool_calls)).help("use at most 10000"));
        }
        problems.extend(self.limits.check("/limits"));
        problems
    }
    fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().filter_map(|name| tool(name).ok()).map(|t| t.spec()).collect()
    }
}

/// What all episodes of one environment share.
pub struct Dialogue {
    options: DialogueOptions,
    host: Arc<ToolHost>,
    tools: Vec<Box<dyn Tool>>,
    format: Box<dyn ToolFormat>,
    read_answer: fn(&str) -> Option<String>,
}

impl Dialogue {
    pub fn new(options: DialogueOptions, host: &Arc<ToolHost>, read_answer: fn(&str) -> Option<String>) -> Result<Arc<Self>> {
        let tools = options.tools.iter().map(|name| tool(name)).collect::<Result<Vec<_>>>()?;
        let format = formats::build(&options.format, &options.specs())?;
        Ok(Arc::new(Self { options, host: Arc::clone(host), tools, format, read_answer }))
    }
    pub fn options(&self) -> &DialogueOptions {
        &self.options
    }
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|t| t.spec()).collect()
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
            system.push_str(&self.format.describe(&self.specs()));
        }
        let head = (!system.is_empty()).then(|| Message::new("system", system));
        head.into_iter().chain(problem.messages.iter().cloned()).collect()
    }
    pub fn start(self: &Arc<Self>) -> Result<Box<dyn Episode>> {
        let mut sessions = Vec::with_capacity(self.tools.len());
        for tool in &self.tools {
            sessions.push(tool.open(&self.host, &self.options.limits)?);
        }
        Ok(Box::new(DialogueEpisode { dialogue: Arc::clone(self), sessions, state: State::Agent, turns: 0, tool_calls: 0, tool_errors: 0 }))
    }
}

/// Whose move it is.
enum State {
    Agent,
    /// Results still to come, those that came, in the order of the calls.
    Tools {
        awaited: VecDeque<Ticket>,
        came: Vec<ToolResult>,
    },
    Over,
}

struct DialogueEpisode {
    dialogue: Arc<Dialogue>,
    /// One per tool, in the order of the options.
    sessions: Vec<Box<dyn ToolSession>>,
    state: State,
    turns: u32,
    tool_calls: u32,
    tool_errors: u32,
}

impl DialogueEpisode {
    fn end(&mut self, stop: StopReason, status: Status, answer: Option<String>) -> Step {
        self.state = State::Over;
        let Self { turns, tool_calls, tool_errors, .. } = *self;
        Step::Done(Outcome { answer, stop, status, turns, tool_calls, tool_errors })
    }
    /// Hands every call of a turn to its tool; one that cannot be run is answered at once.
    fn submit(&mut self, turn: &AgentTurn) -> VecDeque<Ticket> {
        let calls = turn.calls.iter().map(|call| match call {
            Err(message) => Ticket::ready(ToolResult::error(message.clone())),
            Ok(call) => match self.dialogue.options.tools.iter().position(|name| *name == call.name) {
                Some(index) => self.sessions[index].submit(&call.arguments),
                None => {
                    let known = self.dialogue.options.tools.join(", ");
                    Ticket::ready(ToolResult::error(format!("error: no tool `{}`; use one of: {known}", call.name)))
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
        if results.iter().any(|r| r.infrastructure || r.timed_out) {
            return self.end(StopReason::Error, Status::Infrastructure, None);
        }
        self.state = State::Agent;
        let tool_calls = results.len() as u32;
        let messages = results.into_iter().map(|r| Message::new("tool", r.text)).collect();
        Step::Observe(Observation { messages, tool_calls, tool_errors: errors })
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
            return Ok(self.end(StopReason::Length, Status::Ok, None));
        }
        if turn.calls.is_empty() {
            let answer = (self.dialogue.read_answer)(&turn.text);
            let stop = if answer.is_some() { StopReason::Answer } else { StopReason::End };
            return Ok(self.end(stop, Status::Ok, answer));
        }
        if self.turns >= self.dialogue.options.max_turns {
            return Ok(self.end(StopReason::Turns, Status::Ok, None));
        }
        if u64::from(self.tool_calls) + turn.calls.len() as u64 > u64::from(self.dialogue.options.max_tool_calls) {
            return Ok(self.end(StopReason::ToolLimit, Status::Ok, None));
        }
        self.state = State::Tools { awaited: self.submit(turn), came: Vec::new() };
        Ok(self.poll(Duration::ZERO).unwrap_or(Step::Pending))
    }
    fn poll(&mut self, wait: Duration) -> Option<Step> {
        let State::Tools { awaited, came } = &mut self.state else { return None };
        while let Some(ticket) = awaited.front() {
            // A wait may last as long per call; the caller asks for patience, not for precision.
            came.push(if wait.is_zero() { ticket.poll()? } else { ticket.wait(wait)? });
            awaited.pop_front();
        }
        let results = std::mem::take(came);
        Some(self.observe(results))
    }
    fn fork(&self) -> Result<Box<dyn Episode>> {
        match self.state {
            State::Agent => {}
            State::Tools { .. } => return Err(Error::bug("an episode cannot be forked while tool results are pending")),
            State::Over => return Err(Error::bug("an episode cannot be forked after its end")),
        }
        let sessions = self.sessions.iter().map(|s| s.fork()).collect::<Result<Vec<_>>>()?;
        let Self { turns, tool_calls, tool_errors, .. } = *self;
        Ok(Box::new(Self { dialogue: Arc::clone(&self.dialogue), sessions, state: State::Agent, turns, tool_calls, tool_errors }))
    }
}
