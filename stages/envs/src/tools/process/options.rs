//! Options of the tool `process`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;
use trainyard_process::ProgramOptions;

/// A program whose functions are tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessToolOptions {
    /// The program.
    #[serde(flatten)]
    pub program: ProgramOptions,
}

impl PartOptions for ProcessToolOptions {
    const KIND: &'static str = "process";
    const SUMMARY: &'static str = "tools of a program of yours, in any language";
    const DOC: &'static str = include_str!("process.md");
    fn check(&self) -> Vec<OptionProblem> {
        self.program.problems()
    }
}
