//! Defines the options of an environment in user-defined code.

use crate::environments::{DialogueOptions, ExtraOptions};
use crate::programs::{CustomCodeOptions, CustomCodePage, ExceptionPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::OptionProblem;
use trainyard_process::ProgramOptions;

/// Options that a user-defined environment adds to those of a dialogue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(bound = "P: CustomCodeOptions")]
pub struct CustomEnvironmentExtra<P> {
    /// Program or service that implements the environment.
    #[serde(flatten)]
    pub peer: P,
    /// Name of the environment, if the program has several: in Python, the name of the class.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Effect of an exception of the program: `fail` ends the stage; with `skip` the episode is an infrastructure
    /// failure. An exception of a tool is a result that the model sees.
    pub on_error: ExceptionPolicy,
}

/// User-defined code as an environment.
pub struct EnvironmentRole;

impl CustomCodePage<ProgramOptions> for EnvironmentRole {
    const SUMMARY: &'static str = "an environment in a user program, in any language";
    const DOC: &'static str = include_str!("process.md");
}

impl<P: CustomCodeOptions> ExtraOptions for CustomEnvironmentExtra<P>
where
    EnvironmentRole: CustomCodePage<P>,
{
    const KIND: &'static str = P::KIND;
    const SUMMARY: &'static str = <EnvironmentRole as CustomCodePage<P>>::SUMMARY;
    const DOC: &'static str = <EnvironmentRole as CustomCodePage<P>>::DOC;
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
        self.peer.problems()
    }
}
