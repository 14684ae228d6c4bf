//! Implements the environment `function-calling`: one turn of tool calls, which is compared with gold calls
//! ([`crate::calls::equal`]). No call is executed.
//!
//! - An empty turn, or one with an unreadable call, has no answer and ends with `end`; a truncated turn ends with
//!   `length`.
//! - The outcome counts all calls of the turn; unreadable calls are errors.
//!
//! [`requests`] generates problems about the functions of a fictional [`catalog`].

pub mod catalog;
pub mod requests;

use crate::Toolbox;
use crate::environments::{
    Demonstration, Environment, EnvironmentOptions, EnvironmentSetup, Episode, EpisodeStep, Outcome, ProblemGenerator,
    ScriptedTurn,
};
use crate::formats::{AgentTurn, ToolFormat, registry as formats};
use crate::tools::ToolSpec;
use crate::verifiers::Extraction;
use requests::GeneratedRequest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use trainyard_api::PartOptions;
use trainyard_core::{Chance, Digest, Error, OptionProblem, Result};
use trainyard_tables::{AnswerCheck, EpisodeStatus, Message, Problem, StopReason};

/// How a generated problem describes the functions of its catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum FunctionListing {
    /// No description: a model trained on the catalog knows it.
    None,
    /// One line per function: `book_table(people: int, time: int)`.
    Signatures,
    /// The tool format's description, which includes how to write a call.
    Full,
}

/// Options of `function-calling`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FunctionCallingOptions {
    /// How calls are written: `toolrl`, `hermes`, `llama3` or `mistral` (JSON), or `qwen` (tags).
    #[schemars(schema_with = "formats::schema_for_any_tools")]
    pub format: String,
    /// Text added before a problem's system message; empty = none.
    pub system: String,
    /// How generated problems describe their functions: `none`, `signatures` or `full`. Imported problems bring their
    /// own descriptions.
    pub listing: FunctionListing,
}

impl Default for FunctionCallingOptions {
    fn default() -> Self {
        Self { format: "toolrl".to_string(), system: String::new(), listing: FunctionListing::Signatures }
    }
}

impl PartOptions for FunctionCallingOptions {
    const KIND: &'static str = "function-calling";
    const SUMMARY: &'static str = "one turn of tool calls, compared with gold calls";
    const DOC: &'static str = "The problem's messages describe the tools and hold the conversation. The agent writes\n\
        its calls, or only text if no call is needed, and the episode ends; no tool runs. The answer is the JSON\n\
        list of the calls. It is right if it equals the gold calls in any order (verifier `calls`); the reward\n\
        `call_match` grades near misses.\n\n\
        Data sets: ToolRL's prompts (2504.13958) and API-Bank (2304.08244), imported by `data/import` with format\n\
        `toolrl`. Generates its own problems from a fictional catalog of functions.";
    fn check(&self) -> Vec<OptionProblem> {
        self.check_with(&Toolbox::standard())
    }
}

impl EnvironmentOptions for FunctionCallingOptions {
    fn check_with(&self, toolbox: &Toolbox) -> Vec<OptionProblem> {
        match toolbox.format(&self.format, &[]) {
            Ok(_) => Vec::new(),
            Err(e) => vec![OptionProblem { pointer: "/format".to_string(), message: e.message, help: e.help }],
        }
    }
    fn fill_schema(schema: &mut Value, toolbox: &Toolbox) {
        schema["properties"]["format"]["enum"] = json!(toolbox.formats_for_any_tools());
    }
}

pub struct FunctionCalling {
    options: FunctionCallingOptions,
    format: Box<dyn ToolFormat>,
    toolbox: Arc<Toolbox>,
}

impl FunctionCalling {
    /// Returns the environment. Fails if `format` is unknown or needs a fixed tool.
    pub fn new(options: FunctionCallingOptions, setup: &EnvironmentSetup) -> Result<Self> {
        let format = setup.toolbox.format(&options.format, &[])?;
        Ok(Self { options, format, toolbox: Arc::clone(&setup.toolbox) })
    }
}

impl Environment for FunctionCalling {
    fn kind(&self) -> &'static str {
        FunctionCallingOptions::KIND
    }
    /// Returns no tools, because each problem describes its tools in its messages.
    fn tools(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    fn format(&self) -> &dyn ToolFormat {
        &*self.format
    }
    fn prompt(&self, problem: &Problem) -> Result<Vec<Message>> {
        let mut messages = problem.messages.clone();
        if !self.options.system.is_empty() {
            match messages.first_mut().filter(|m| m.role == "system") {
                Some(first) => first.content = format!("{}\n\n{}", self.options.system, first.content),
                None => messages.insert(0, Message::new("system", self.options.system.as_str())),
            }
        }
        Ok(messages)
    }
    fn start(&self, _problem: &Problem, _seed: u64) -> Result<Box<dyn Episode>> {
        Ok(Box::new(SingleTurnEpisode { ended: false }))
    }
    fn max_turns(&self) -> u32 {
        1
    }
    fn verify(&self, problem: &Problem, answer: &str) -> Result<bool> {
        self.check_answer(problem, answer).map(|check| check.correct)
    }
    fn check_answer(&self, problem: &Problem, answer: &str) -> Result<AnswerCheck> {
        self.toolbox.check_answer(problem, Extraction::None, answer)
    }
    fn read_answer(&self, text: &str) -> Option<String> {
        answer(&self.format.parse(text))
    }
    fn generator(&self) -> Option<&dyn ProblemGenerator> {
        Some(self)
    }
}

/// Returns the calls of a turn as JSON; `None` if one of them is unreadable or the turn is empty.
fn answer(turn: &AgentTurn) -> Option<String> {
    if turn.text.trim().is_empty() || turn.calls.iter().any(|call| call.is_err()) {
        return None;
    }
    Some(turn.calls_json().unwrap_or_else(|| "[]".to_string()))
}

struct SingleTurnEpisode {
    ended: bool,
}

impl Episode for SingleTurnEpisode {
    fn step(&mut self, turn: &AgentTurn) -> Result<EpisodeStep> {
        if self.ended {
            return Err(Error::bug("a turn was taken after the end of the episode"));
        }
        self.ended = true;
        let answer = if turn.truncated { None } else { answer(turn) };
        let stop = match &answer {
            Some(_) => StopReason::Answer,
            None if turn.truncated => StopReason::Length,
            None => StopReason::End,
        };
        let tool_errors = turn.calls.iter().filter(|call| call.is_err()).count() as u32;
        let tool_calls = turn.calls.len() as u32;
        Ok(EpisodeStep::Done(Outcome {
            answer,
            stop,
            status: EpisodeStatus::Ok,
            turns: 1,
            tool_calls,
            tool_errors,
            ..Outcome::default()
        }))
    }
    fn poll(&mut self, _wait: Duration) -> Result<Option<EpisodeStep>> {
        Ok(None)
    }
    fn fork(&self) -> Result<Box<dyn Episode>> {
        if self.ended {
            return Err(Error::bug("an episode cannot be forked after its end"));
        }
        Ok(Box::new(Self { ended: false }))
    }
}

/// Demonstrations write the correct calls. They make no mistakes, because there is no second turn in which to correct
/// one.
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
            meta: None,
            parents: Vec::new(),
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
    fn messages(&self, generated: &GeneratedRequest) -> Vec<Message> {
        let system = match self.options.listing {
            FunctionListing::None => None,
            FunctionListing::Signatures => {
                let lines: Vec<String> = generated.shown.iter().map(|f| f.signature()).collect();
                Some(format!("Functions:\n{}", lines.join("\n")))
            }
            FunctionListing::Full => {
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
