//! Options of an environment that is a program of the user.

use crate::environments::{DialogueOptions, ExtraOptions};
use crate::programs::OnError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::OptionProblem;
use trainyard_process::ProgramOptions;

/// What `process` adds to the options of a dialogue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessExtra {
    /// The program.
    #[serde(flatten)]
    pub program: ProgramOptions,
    /// Which of several environments of the program is meant: in Python, the name of the class.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What an exception of the program does: `fail` ends the stage; with `skip` the episode is an infrastructure
    /// failure. One of a tool is a result that the model sees.
    pub on_error: OnError,
}

impl ExtraOptions for ProcessExtra {
    const KIND: &'static str = "process";
    const SUMMARY: &'static str = "an environment of a program of yours, in any language";
    const DOC: &'static str = include_str!("process.md");
    fn dialogue() -> DialogueOptions {
        DialogueOptions {
            tools: Vec::new(),
            format: "hermes".to_string(),
            max_turns: 8,
            max_tool_calls: 64,
            describe_tools: true,
            ..DialogueOptions::default()
        }
    }
    fn check(&self) -> Vec<OptionProblem> {
        self.program.problems()
    }
}
