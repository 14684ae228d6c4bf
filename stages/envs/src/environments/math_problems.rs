//! Implements the environment `math-problems`: math word problems from data sets such as GSM8K (arXiv 2110.14168), with
//! tools.
//!
//! Data sets and models write answers in many ways; the same parser for both makes the answers comparable.

use crate::environments::{DialogueOptions, ExtraOptions, QuestionOptions};
use crate::verifiers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The environment `math-problems`, without options besides those of a dialogue, by default with the calculator and 32
/// turns.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MathProblems {}

impl ExtraOptions for MathProblems {
    const KIND: &'static str = "math-problems";
    const SUMMARY: &'static str = "math word problems from data sets, with tools";
    const DOC: &'static str = "The agent may call its tools, then answers in a turn without a call. The answer is\n\
        what follows `####`, or `\\boxed{}`, or a short message as a whole, or the last number of a long one. In a\n\
        short sentence it is the marked answer or the only number (`extract`).\n\
        Problems come from data sets such as GSM8K (2110.14168), by `data/import`; their verifier is `numeric` unless\n\
        they name another. The defaults suit solutions that use a calculator. Generates no problems.";
    fn dialogue() -> DialogueOptions {
        DialogueOptions {
            tools: vec!["calculator".into()],
            max_turns: 32,
            max_tool_calls: 32,
            ..DialogueOptions::default()
        }
    }
}

impl QuestionOptions for MathProblems {
    fn read_answer(turn: &str) -> Option<String> {
        verifiers::final_answer(turn)
    }
}

/// Returns the default environment of stages that play worked solutions: math problems with the calculator and up to 32
/// turns.
pub fn default_options() -> Value {
    json!({ "kind": MathProblems::KIND })
}
