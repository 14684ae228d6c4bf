//! `function-calling`: one turn of tool calls, held against gold calls ([`crate::calls::equal`]).
//!
//! Why so: which function to call with which arguments can be learned and judged without running any. [`requests`] makes requests for
//! the functions of a made-up [`catalog`].
//!
//! - A turn with a call that cannot be read, and an empty one, have no answer: the episode ends with `end`. A truncated turn ends it
//!   with `length`.
//! - The outcome counts the calls that were written; those that could not be read are errors.
//!
//! Refuses: tools of its own, and a second turn.

pub mod catalog;
pub mod requests;

use crate::environments::{
    AgentTurn, Demonstration, Environment, Episode, Outcome, ProblemGenerator, ScriptedTurn, Step,
};
use crate::formats::{ToolFormat, registry as formats};
use crate::tools::ToolSpec;
use crate::verifiers;
use requests::Generated;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use trainyard_api::PartOptions;
use trainyard_core::{Chance, Digest, Error, OptionProblem, Result};
use trainyard_tables::{Message, Problem, Status, StopReason};

/// How a generated problem describes the functions of its catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Listing {
    /// Not at all: a model that is trained on the catalog knows it.
    None,
    /// One line for each: `book_table(people: int, time: int)`.
    Signatures,
    /// As a tool format describes tools, with the way to write a call.
    Full,
}

/// Options of `function-calling`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FunctionCallingOptions {
    /// How calls are written: `toolrl` or `hermes` (JSON).
    #[schemars(schema_with = "formats::schema_for_any_tools")]
    pub format: String,
    /// Text put before the system message of a problem; empty = none.
    pub system: String,
    /// What generated problems say about their functions: `none`, `signatures` or `full`. Problems of data sets say it themselves.
    pub listing: Listing,
}

impl Default for FunctionCallingOptions {
    fn default() -> Self {
        Self { format: "toolrl".to_string(), system: String::new(), listing: Listing::Signatures }
    }
}

impl PartOptions for FunctionCallingOptions {
    const KIND: &'static str = "function-calling";
    const SUMMARY: &'static str = "one turn of tool calls, judged by gold calls";
    const DOC: &'static str = "The problem's messages hold the descriptions of the tools and the conversation; the agent writes its calls, or only words where no call is\n\
        wanted, and the episode is over: nothing runs. The answer is the JSON list of the calls; it is right if it equals the gold calls in any\n\
        order (verifier `calls`; the reward `call_match` grades near misses).\n\n\
        Data sets: ToolRL's prompts (2504.13958) and API-Bank (2304.08244), by `data/import` with format `toolrl`. Makes its own problems, of a\n\
        made-up catalog of functions.";
    fn check(&self) -> Vec<OptionProblem> {
        match formats::build(&self.format, &[]) {
            Ok(_) => Vec::new(),
            Err(e) => vec![OptionProblem { pointer: "/format".to_string(), message: e.message, help: e.help }],
        }
    }
}

pub struct FunctionCalling {
    options: FunctionCallingOptions,
    format: Box<dyn ToolFormat>,
}

impl FunctionCalling {
    pub fn new(options: FunctionCallingOptions) -> Result<Self> {
        let format = formats::build(&options.format, &[])?;
        Ok(Self { options, format })
    }
}

impl Environment for FunctionCalling {
    fn kind(&self) -> &'static str {
        FunctionCallingOptions::KIND
    }
    /// None: every problem brings its own in its messages.
    fn tools(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    fn format(&self) -> &dyn ToolFormat {
        &*self.format
    }
    fn prompt(&self, problem: &Problem) -> Vec<Message> {
        let mut messages = problem.messages.clone();
        if !self.options.system.is_empty() {
            match messages.first_mut().filter(|m| m.role == "system") {
                Some(first) => first.content = format!("{}\n\n{}", self.options.system, first.content),
                None => messages.insert(0, Message::new("system", self.options.system.as_str())),
            }
        }
        messages
    }
    fn start(&self, _problem: &Problem, _seed: u64) -> Result<Box<dyn Episode>> {
        Ok(Box::new(OneTurn { over: false }))
    }
    fn max_turns(&self) -> u32 {
        1
    }
    fn verify(&self, problem: &Problem, answer: &str) -> bool {
        verifiers::verify(problem, answer)
    }
    fn read_answer(&self, text: &str) -> Option<String> {
        answer(&self.format.parse(text))
    }
    fn generator(&self) -> Option<&dyn ProblemGenerator> {
        Some(self)
    }
}

/// The calls of a turn as JSON; none if one of them cannot be read or if there is nothing at all.
fn answer(turn: &AgentTurn) -> Option<String> {
    if turn.text.trim().is_empty() || turn.calls.iter().any(|call| call.is_err()) {
        return None;
    }
    Some(turn.calls_json().unwrap_or_else(|| "[]".to_string()))
}

struct OneTurn {
    over: bool,
}

impl Episode for OneTurn {
    fn step(&mut self, turn: &AgentTurn) -> Result<Step> {
        if self.over {
            return Err(Error::bug("a turn was handed over after the end of the episode"));
        }
        self.over = true;
        let answer = if turn.truncated { None } else { answer(turn) };
        let stop = match &answer {
            Some(_) => StopReason::Answer,
            None if turn.truncated => StopReason::Length,
            None => StopReason::End,
        };
        let tool_errors = turn.calls.iter().filter(|call| call.is_err()).count() as u32;
        let tool_calls = turn.calls.len() as u32;
        Ok(Step::Done(Outcome {
            answer,
            stop,
            status: Status::Ok,
            turns: 1,
            tool_calls,
            tool_errors,
            timed_out: false,
        }))
    }
    fn poll(&mut self, _wait: Duration) -> Option<Step> {
        None
    }
    fn fork(&self) -> Result<Box<dyn Episode>> {
        if self.over {
            return Err(Error::bug("an episode cannot be forked after its end"));
        }
        Ok(Box::new(Self { over: false }))
    }
}

/// The demonstrator writes the right calls. There is no second turn, so it makes no mistake.
impl ProblemGenerator for FunctionCalling {
    fn max_level(&self) -> u32 {
        requests::MAX_LEVEL
    }
    fn problem(&self, level: u32, index: u64, chance: &Chance) -> Problem {
        let generated = requests::generate(level, index, chance);
        let (canonical, calls) = (generated.canonical(), generated.calls_json());
        Problem {
            id: format!("fc{}-{}", generated.level, Digest::of(canonical.as_bytes()).short()),
            messages: self.messages(&generated),
            verifier: format!(r#"{{"kind":"calls","gold":{calls}}}"#),
            answer: calls,
            environment: FunctionCallingOptions::KIND.to_string(),
            level: generated.level,
            source: FunctionCallingOptions::KIND.to_string(),
            split: String::new(),
            canonical,
            reference: Some(
                generated.calls().iter().map(|call| self.format.render(call)).collect::<Vec<_>>().join("\n"),
            ),
        }
    }
    fn demonstration(
        &self,
        level: u32,
        index: u64,
        chance: &Chance,
        _mistakes: f64,
        _mistake_chance: &Chance,
    ) -> Demonstration {
        let calls = requests::generate(level, index, chance).calls();
        Demonstration { turns: vec![ScriptedTurn::Calls(calls)], mistaken: false }
    }
    fn plural(&self) -> &'static str {
        "requests for functions"
    }
}

impl FunctionCalling {
    fn messages(&self, generated: &Generated) -> Vec<Message> {
        let system = match self.options.listing {
            Listing::None => None,
            Listing::Signatures => {
                let lines: Vec<String> = generated.shown.iter().map(|f| f.signature()).collect();
                Some(format!("Functions:\n{}", lines.join("\n")))
            }
            Listing::Full => {
                let specs: Vec<ToolSpec> = generated.shown.iter().map(|f| f.spec()).collect();
                Some(self.format.describe(&specs))
            }
        };
        let head = system.map(|text| Message::new("system", text));
        head.into_iter().chain([Message::new("user", generated.text())]).collect()
    }
}

#[cfg(test)]
mod tests;
