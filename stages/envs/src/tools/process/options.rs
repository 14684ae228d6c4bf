//! Options of a program that keeps sessions: a tool or an environment of the user.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;
use trainyard_process::ProcessOptions;

/// A program and how it is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramOptions {
    /// The program and its arguments: `[python3, my_tools.py]`. A word that names a file beside the workflow file is a
    /// source: its content is a part of the stage digest, and it goes where the stage runs. The program itself may also
    /// come from the PATH.
    #[schemars(extend("items" = {"type": "string", "format": "command"}))]
    pub command: Vec<String>,
    /// Further files and folders that the program needs, such as modules that it imports; sources too, and patterns are
    /// allowed. It finds them in its working folder, each under its own name. It finds no other files there.
    #[schemars(extend("items" = {"type": "string", "format": "sources"}))]
    pub files: Vec<String>,
    /// Processes of the program that run at the same time. An episode stays with one of them.
    #[schemars(range(min = 1, max = 256))]
    pub workers: usize,
    /// How long one call may take: `30s`, `2m`. A process that takes longer is killed, and the episode is an
    /// infrastructure failure.
    pub timeout: String,
    /// Names of environment variables that the program gets beside `HOME`, `LANG`, `LC_ALL`, `PATH`, `TMPDIR` and `TZ`.
    /// Their values are not a part of the stage digest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Handed to the program as it is.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub options: Value,
}

impl Default for ProgramOptions {
    fn default() -> Self {
        let ProcessOptions { command, files, workers, timeout, env, options, .. } = ProcessOptions::default();
        Self { command, files, workers, timeout, env, options }
    }
}

impl ProgramOptions {
    /// As all roles of a program take them.
    pub fn process(&self) -> ProcessOptions {
        let Self { command, files, workers, timeout, env, options } = self.clone();
        ProcessOptions { command, files, workers, timeout, env, options, ..ProcessOptions::default() }
    }
    /// Everything that types cannot express.
    pub fn problems(&self) -> Vec<OptionProblem> {
        self.process().problems()
    }
}

impl PartOptions for ProgramOptions {
    const KIND: &'static str = "process";
    const SUMMARY: &'static str = "tools of a program of yours, in any language";
    const DOC: &'static str = include_str!("process.md");
    fn check(&self) -> Vec<OptionProblem> {
        self.problems()
    }
}
