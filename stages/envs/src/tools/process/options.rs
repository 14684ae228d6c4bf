//! Options of tools in user-defined code.

use crate::programs::CustomCodeOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;
use trainyard_process::ProgramOptions;

/// A program or a service whose functions are tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(bound = "P: CustomCodeOptions")]
pub struct CustomToolOptions<P> {
    /// Program or service that answers calls.
    #[serde(flatten)]
    pub peer: P,
}

/// Documentation of user-defined tools.
pub trait CustomToolPage: CustomCodeOptions {
    /// See [`PartOptions`].
    const SUMMARY: &'static str;
    /// See [`PartOptions`].
    const DOC: &'static str;
}

impl CustomToolPage for ProgramOptions {
    const SUMMARY: &'static str = "tools of a program of yours, in any language";
    const DOC: &'static str = include_str!("process.md");
}

impl<P: CustomToolPage> PartOptions for CustomToolOptions<P> {
    const KIND: &'static str = P::KIND;
    const SUMMARY: &'static str = P::SUMMARY;
    const DOC: &'static str = P::DOC;
    fn check(&self) -> Vec<OptionProblem> {
        self.peer.problems()
    }
}
