//! `noop`: does nothing, for measuring the orchestrator and for joining branches of a workflow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trainyard_api::{Ports, Stage, StageContext, port};
use trainyard_core::{ArtifactKind, Cardinality, Placement, Result};

/// The stage kind `noop`.
#[derive(Default)]
pub struct Noop;

/// Options of `noop`; they only enter the digest.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Any value; another one makes another digest.
    pub value: Value,
}

impl Stage for Noop {
    type Prepared = Config;
    const NAME: &'static str = "noop";
    const SUMMARY: &'static str = "does nothing";
    const DOC: &'static str =
        "Runs inside the engine's process, reads nothing and writes nothing. Equal `value`s have equal digests.";
    const EXAMPLE: &'static str = r#"{"value": 1}"#;
    const PLACEMENT: Placement = Placement::InProcess;

    fn ports(&self) -> Ports {
        use ArtifactKind::{Files, Table};
        Ports {
            inputs: vec![
                port("tables", Table, Cardinality::Many, "Ignored; makes it wait."),
                port("files", Files, Cardinality::Many, "Ignored; makes it wait."),
            ],
            outputs: Vec::new(),
        }
    }
    fn prepare(&self, options: Value) -> Result<Config> {
        self.parse(options)
    }
}

impl trainyard_api::Prepared for Config {
    type Config = Self;
    fn config(&self) -> &Self {
        self
    }
    fn run(self, _: &mut StageContext) -> Result<()> {
        Ok(())
    }
}
