//! Options of an environment that is a program of the user.

use crate::environments::{DialogueOptions, ExtraOptions};
use crate::tools::process::ProgramOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trainyard_core::OptionProblem;

/// What becomes of an exception of the program, other than one of a tool, which the model sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The stage fails, with the traceback.
    #[default]
    Fail,
    /// The episode is an infrastructure failure: it gets no reward and enters no update.
    Skip,
}

/// What `process` adds to the options of a dialogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessExtra {
    /// The program and its arguments: `[python3, my_environment.py]`. A word that names a file beside the workflow file
    /// is a source: its content is a part of the stage digest, and it goes where the stage runs. The program itself may
    /// also come from the PATH.
    #[schemars(extend("items" = {"type": "string", "format": "command"}))]
    pub command: Vec<String>,
    /// Further files and folders that the program needs, such as modules that it imports; sources too, and patterns are
    /// allowed. It finds them in its working folder, each under its own name. It finds no other files there.
    #[schemars(extend("items" = {"type": "string", "format": "sources"}))]
    pub files: Vec<String>,
    /// Processes of the program that run at the same time. An episode stays with one of them.
    #[schemars(range(min = 1, max = 256))]
    pub workers: usize,
    /// How long one request may take: `30s`, `2m`. A process that takes longer is killed, and the episode is an
    /// infrastructure failure.
    pub timeout: String,
    /// Names of environment variables that the program gets beside `HOME`, `LANG`, `LC_ALL`, `PATH`, `TMPDIR` and `TZ`.
    /// Their values are not a part of the stage digest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Handed to the program as it is.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub options: Value,
    /// Which of several environments of the program is meant: in Python, the name of the class. Null = the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What an exception of the program does. One of a tool is a result that the model sees.
    pub on_error: OnError,
}

impl Default for ProcessExtra {
    fn default() -> Self {
        let ProgramOptions { command, files, workers, timeout, env, options } = ProgramOptions::default();
        Self { command, files, workers, timeout, env, options, name: None, on_error: OnError::Fail }
    }
}

impl ProcessExtra {
    /// The program alone.
    pub fn program(&self) -> ProgramOptions {
        let Self { command, files, workers, timeout, env, options, .. } = self.clone();
        ProgramOptions { command, files, workers, timeout, env, options }
    }
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
        self.program().problems()
    }
}
