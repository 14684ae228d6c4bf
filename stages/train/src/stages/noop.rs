//! Implements the stage `noop`, which does nothing. It serves to measure the orchestrator and to join branches of a
//! workflow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trainyard_api::{Ports, Stage, StageContext, port};
use trainyard_core::{ArtifactKind, Cardinality, Placement, Result};

#[derive(Default)]
pub struct Noop;

/// Options of `noop`, which only change the digest.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoopConfig {
    /// Any value; a different one gives a different digest.
    pub value: Value,
}

impl Stage for Noop {
    type Prepared = NoopConfig;
    const NAME: &'static str = "noop";
    const SUMMARY: &'static str = "does nothing";
    const DOC: &'static str = "Does nothing and writes nothing, inside the engine's process: for measuring the \
        orchestrator, or for joining branches. Equal values have equal digests.";
    const EXAMPLE: &'static str = r#"{"value": 1}"#;
    const PLACEMENT: Placement = Placement::InProcess;

    fn ports(&self) -> Ports {
        use ArtifactKind::{Files, Table};
        Ports {
            inputs: vec![
                port("tables", Table, Cardinality::Many, "Ignored; the stage waits for them."),
                port("files", Files, Cardinality::Many, "Ignored; the stage waits for them."),
            ],
            outputs: Vec::new(),
        }
    }
    fn prepare(&self, options: Value) -> Result<NoopConfig> {
        self.parse(options)
    }
    fn run(&self, _: NoopConfig, _: &mut StageContext) -> Result<()> {
        Ok(())
    }
}

impl trainyard_api::PreparedOptions for NoopConfig {
    type Config = Self;
    fn config(&self) -> &Self {
        self
    }
}
