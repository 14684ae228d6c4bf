//! Defines the options of `report`, and checks them against the wired reports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use trainyard_api::PreparedOptions;
use trainyard_core::{AxisInstance, OptionProblem, WiredInputs};

/// Options of `report`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReportConfig {
    /// Heading of the page.
    pub title: String,
    /// Sentence under the heading.
    pub summary: String,
    /// Metric of the chart of a sweep. If it is not set: the first that the stage has of `accuracy`,
    /// `validation_accuracy`, `reward_mean`, `validation_loss` and `loss`, or else the first of the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<String>,
    /// Stage instances that the reports come from; `check` sets them for reports of a matrix.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-instances-of" = "reports"))]
    pub instances: Vec<AxisInstance>,
    /// Params of the workflow that the page shows; `check` sets them, without paths and URLs. An empty map shows none.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(extend("x-params" = true))]
    pub params: Map<String, Value>,
}

impl Default for ReportConfig {
    fn default() -> Self {
        Self { title: "Report".into(), summary: String::new(), chart: None, instances: Vec::new(), params: Map::new() }
    }
}

impl PreparedOptions for ReportConfig {
    type Config = Self;
    fn config(&self) -> &Self {
        self
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let reports = inputs.get("reports").copied().unwrap_or(0);
        if self.instances.is_empty() || self.instances.len() == reports {
            return Vec::new();
        }
        let message = format!("{reports} reports, but {} instances", self.instances.len());
        vec![OptionProblem::new("/instances", message).help("leave `instances` out, or give one per report")]
    }
}
