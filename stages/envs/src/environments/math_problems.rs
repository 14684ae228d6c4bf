//! `math-problems`: word problems of data sets such as GSM8K (arXiv 2110.14168), with tools and a numeric judge.
//!
//! Why so: data sets write their answers in several ways, and models theirs; one reading of both makes them comparable. Defaults suit
//! a data set whose solutions use a calculator. Refuses: problems whose verifier cannot be read have no right answer.

use crate::environments::dialogue::Dialogue;
use crate::environments::{DialogueEnvironment, DialogueOptions, InDialogue, OwnOptions};
use crate::tools::ToolHost;
use crate::verifiers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_core::Result;

/// `math-problems` has no options beside those of a dialogue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MathProblemsOwn {}

impl OwnOptions for MathProblemsOwn {
    const KIND: &'static str = "math-problems";
    const SUMMARY: &'static str = "math word problems of data sets, with tools, judged by a number";
    const DOC: &'static str = "The agent may call its tools, then answers in a turn without a call. The answer is what follows `####`, or `\\boxed{}`, or a short message as\n\
        it stands, or the last number of a long one. Problems come from data sets such as GSM8K (2110.14168), by `data/import`; their verifier is\n\
        `numeric` unless they name another. Makes no problems.";
    fn dialogue() -> DialogueOptions {
        DialogueOptions {
            tools: vec!["calculator".to_string()],
            max_turns: 32,
            max_tool_calls: 32,
            ..DialogueOptions::default()
        }
    }
}

/// Options of `math-problems`: those of a dialogue, with the calculator and 32 turns as default.
pub type MathProblemsOptions = InDialogue<MathProblemsOwn>;

/// What a stage that plays worked solutions uses if it names no environment: the calculator, 32 turns at most.
pub fn default_options() -> Value {
    json!({ "kind": <MathProblemsOwn as OwnOptions>::KIND })
}

pub struct MathProblems(Arc<Dialogue>);

impl MathProblems {
    pub fn new(options: MathProblemsOptions, host: &Arc<ToolHost>) -> Result<Self> {
        Ok(Self(Dialogue::new(options.dialogue, host, verifiers::final_answer)?))
    }
}

impl DialogueEnvironment for MathProblems {
    const KIND: &'static str = MathProblemsOwn::KIND;
    fn dialogue(&self) -> &Arc<Dialogue> {
        &self.0
    }
}
