//! Options of an environment of the user's own code.

use crate::environments::{DialogueOptions, ExtraOptions};
use crate::programs::{OnError, PeerOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::OptionProblem;
use trainyard_process::ProgramOptions;

/// What such an environment adds to the options of a dialogue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(bound = "P: PeerOptions")]
pub struct OwnExtra<P> {
    /// Who plays it.
    #[serde(flatten)]
    pub peer: P,
    /// Which of several environments of the program is meant: in Python, the name of the class.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What an exception of the program does: `fail` ends the stage; with `skip` the episode is an infrastructure
    /// failure. One of a tool is a result that the model sees.
    pub on_error: OnError,
}

/// What is said of such an environment.
pub trait OwnEnvironmentPage: PeerOptions {
    /// As in [`ExtraOptions`].
    const SUMMARY: &'static str;
    /// As in [`ExtraOptions`].
    const DOC: &'static str;
}

impl OwnEnvironmentPage for ProgramOptions {
    const SUMMARY: &'static str = "an environment of a program of yours, in any language";
    const DOC: &'static str = include_str!("process.md");
}

impl<P: OwnEnvironmentPage> ExtraOptions for OwnExtra<P> {
    const KIND: &'static str = P::KIND;
    const SUMMARY: &'static str = P::SUMMARY;
    const DOC: &'static str = P::DOC;
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
