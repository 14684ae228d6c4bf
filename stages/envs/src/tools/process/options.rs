//! Defines the options of tools in user-defined code.

use crate::programs::{CustomCodeOptions, CustomCodePage};
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

/// User-defined code as tools.
pub struct ToolRole;

impl CustomCodePage<ProgramOptions> for ToolRole {
    const SUMMARY: &'static str = "tools of a user program, in any language";
    const DOC: &'static str = include_str!("process.md");
}

impl<P: CustomCodeOptions> PartOptions for CustomToolOptions<P>
where
    ToolRole: CustomCodePage<P>,
{
    const KIND: &'static str = P::KIND;
    const SUMMARY: &'static str = <ToolRole as CustomCodePage<P>>::SUMMARY;
    const DOC: &'static str = <ToolRole as CustomCodePage<P>>::DOC;
    fn check(&self) -> Vec<OptionProblem> {
        self.peer.problems()
    }
}
