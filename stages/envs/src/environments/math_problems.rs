//! `math-problems`: math word problems from data sets such as GSM8K (arXiv 2110.14168), with tools. Data sets and
//! models write answers in many ways; one reading of both makes them comparable.

use crate::environments::dialogue::Dialogue;
use crate::environments::{DialogueEnvironment, DialogueOptions, ExtraOptions, WithDialogue};
use crate::tools::ToolHost;
use crate::verifiers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_core::Result;

/// `math-problems` has no options besides those of a dialogue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MathProblemsExtra {}

impl ExtraOptions for MathProblemsExtra {
    const KIND: &'static str = "math-problems";
    const SUMMARY: &'static str = "math word problems from data sets, with tools";
    const DOC: &'static str = "The agent may call its tools, then answers in a turn without a call. The answer is\n\
        what follows `####`, or `\\boxed{}`, or a short message as a whole, or the last number of a long one.\n\
        Problems come from data sets such as GSM8K (2110.14168), by `data/import`; their verifier is `numeric` unless\n\
        they name another. The defaults suit solutions that use a calculator. Generates no problems.";
    fn dialogue() -> DialogueOptions {
        DialogueOptions {
            tools: vec!["calculator".to_string()],
            max_turns: 32,
            max_tool_calls: 32,
            ..DialogueOptions::default()
        }
    }
}

/// Options of `math-problems`: those of a dialogue, by default with the calculator and 32 turns.
pub type MathProblemsOptions = WithDialogue<MathProblemsExtra>;

/// The environment of stages that play worked solutions and name none: the calculator and up to 32 turns.
pub fn default_options() -> Value {
    json!({ "kind": <MathProblemsExtra as ExtraOptions>::KIND })
}

/// The environment `math-problems`.
pub struct MathProblems(Arc<Dialogue>);

impl MathProblems {
    /// An environment whose tools run in `host`.
    pub fn new(options: MathProblemsOptions, host: &Arc<ToolHost>) -> Result<Self> {
        Ok(Self(Dialogue::new(options.dialogue, host, verifiers::final_answer)?))
    }
}

impl DialogueEnvironment for MathProblems {
    const KIND: &'static str = MathProblemsExtra::KIND;
    fn dialogue(&self) -> &Arc<Dialogue> {
        &self.0
    }
}
