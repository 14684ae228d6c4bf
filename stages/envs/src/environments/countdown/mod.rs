//! `countdown`: make a target from given numbers, each used at most once, with `+ - * /` and parentheses.
//!
//! The agent may try expressions with its tools; a turn without a call is the answer: what follows `####`, or `\boxed{}`, or else
//! the last line. Exact evaluation judges it, so any expression that makes the target is right. The rule is the game's: numbers may
//! be left over. (The data of TinyZero, github.com/Jiayi-Pan/TinyZero, wants every number used.) Refuses: an answer that is the
//! target and not a way to it.

pub mod generator;

use crate::environments::answer::marked_or_last_line;
use crate::environments::dialogue::Dialogue;
use crate::environments::{Demonstration, DialogueOptions, Environment, Episode, Latency, ProblemGenerator, ScriptedTurn};
use crate::formats::ToolFormat;
use crate::options::PartOptions;
use crate::tools::{ToolHost, ToolLimits, ToolSpec};
use crate::verifiers;
use generator::Puzzle;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use trainyard_core::{Chance, OptionProblem, Result};
use trainyard_tables::{Message, Problem};

/// Options of `countdown`: those of a dialogue, with the calculator and 8 turns as default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CountdownOptions {
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
    /// Put the description of the tools into the system message.
    pub describe_tools: bool,
    /// Limits of one tool call.
    pub limits: ToolLimits,
    /// Holds the results of every turn with calls back for a drawn time, to try how rollouts hide slow tools; null = never. What the
    /// agent reads does not depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

impl Default for CountdownOptions {
    fn default() -> Self {
        let common = DialogueOptions::default();
        Self {
            tools: vec!["calculator".to_string()],
            format: common.format,
            max_turns: 8,
            max_tool_calls: 8,
            system: common.system,
            describe_tools: common.describe_tools,
            limits: common.limits,
            latency: common.latency,
        }
    }
}

impl CountdownOptions {
    fn dialogue(&self) -> DialogueOptions {
        let Self { tools, format, max_turns, max_tool_calls, system, describe_tools, limits, latency } = self.clone();
        DialogueOptions { tools, format, max_turns, max_tool_calls, system, describe_tools, limits, latency }
    }
}

impl PartOptions for CountdownOptions {
    const KIND: &'static str = "countdown";
    fn check(&self) -> Vec<OptionProblem> {
        self.dialogue().check()
    }
}

pub struct Countdown(Arc<Dialogue>);

impl Countdown {
    pub fn new(options: CountdownOptions, host: &Arc<ToolHost>) -> Result<Self> {
        Ok(Self(Dialogue::new(options.dialogue(), host, marked_or_last_line)?))
    }
}

impl Environment for Countdown {
    fn kind(&self) -> &'static str {
        CountdownOptions::KIND
    }
    fn tools(&self) -> Vec<ToolSpec> {
        self.0.specs()
    }
    fn format(&self) -> &dyn ToolFormat {
        self.0.format()
    }
    fn prompt(&self, problem: &Problem) -> Vec<Message> {
        self.0.prompt(problem)
    }
    fn start(&self, _problem: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        self.0.start(seed)
    }
    fn max_turns(&self) -> u32 {
        self.0.options().max_turns
    }
    fn verify(&self, problem: &Problem, answer: &str) -> bool {
        verifiers::verify(problem, answer)
    }
    fn read_answer(&self, text: &str) -> Option<String> {
        marked_or_last_line(text)
    }
    fn generator(&self) -> Option<&dyn ProblemGenerator> {
        Some(self)
    }
}

/// The demonstrator tries the known solution and answers with it; a mistake is an expression whose result is not the target, or an
/// error.
impl ProblemGenerator for Countdown {
    fn max_level(&self) -> u32 {
        generator::MAX_LEVEL
    }
    fn problem(&self, level: u32, index: u64, chance: &Chance) -> Problem {
        Puzzle::at(level, index, chance).problem(level.clamp(1, generator::MAX_LEVEL))
    }
    fn demonstration(&self, level: u32, index: u64, chance: &Chance, mistakes: f64, mistake_chance: &Chance) -> Demonstration {
        let puzzle = Puzzle::at(level, index, chance);
        let mut draws = mistake_chance.at("mistake", &[]);
        let mistake = (draws.uniform() < mistakes).then(|| puzzle.mistake(&mut draws));
        let mistaken = mistake.is_some();
        let tries = mistake.into_iter().chain([puzzle.expression.clone()]);
        let calls = tries.filter_map(|expression| self.0.call(&expression)).map(ScriptedTurn::Call);
        Demonstration { turns: calls.chain([ScriptedTurn::Say(puzzle.expression)]).collect(), mistaken }
    }
    fn plural(&self) -> &'static str {
        "countdown puzzles"
    }
}
