//! `math-problems`: word problems of data sets such as GSM8K (arXiv 2110.14168), with tools and a numeric judge.
//!
//! The agent may call its tools, then answers in a turn without a call. The answer is what follows `####`, or `\boxed{}`, or a
//! short message as it stands, or the last number of a long one. Defaults suit a data set whose solutions use a calculator.
//! Refuses: problems whose verifier cannot be read have no right answer.

use crate::environments::dialogue::Dialogue;
use crate::environments::{DialogueOptions, Environment, Episode, Latency};
use crate::formats::ToolFormat;
use crate::options::PartOptions;
use crate::tools::{ToolHost, ToolSpec};
use crate::verifiers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use trainyard_core::{OptionProblem, Result};
use trainyard_tables::{Message, Problem};

/// Options of `math-problems`: those of a dialogue, with the calculator and 32 turns as default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MathProblemsOptions {
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
    pub limits: crate::tools::ToolLimits,
    /// Holds the results of every turn with calls back for a drawn time, to try how rollouts hide slow tools; null = never. What the
    /// agent reads does not depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

impl Default for MathProblemsOptions {
    fn default() -> Self {
        let common = DialogueOptions::default();
        Self {
            tools: vec!["calculator".to_string()],
            format: common.format,
            max_turns: 32,
            max_tool_calls: 32,
            system: common.system,
            describe_tools: common.describe_tools,
            limits: common.limits,
            latency: common.latency,
        }
    }
}

impl MathProblemsOptions {
    fn dialogue(&self) -> DialogueOptions {
        let Self { tools, format, max_turns, max_tool_calls, system, describe_tools, limits, latency } = self.clone();
        DialogueOptions { tools, format, max_turns, max_tool_calls, system, describe_tools, limits, latency }
    }
}

impl PartOptions for MathProblemsOptions {
    const KIND: &'static str = "math-problems";
    fn check(&self) -> Vec<OptionProblem> {
        self.dialogue().check()
    }
}

pub struct MathProblems(Arc<Dialogue>);

impl MathProblems {
    pub fn new(options: MathProblemsOptions, host: &Arc<ToolHost>) -> Result<Self> {
        Ok(Self(Dialogue::new(options.dialogue(), host, verifiers::final_answer)?))
    }
}

impl Environment for MathProblems {
    fn kind(&self) -> &'static str {
        MathProblemsOptions::KIND
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
        verifiers::final_answer(text)
    }
}
