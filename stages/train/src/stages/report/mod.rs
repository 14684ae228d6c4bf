//! Implements the stage `report`, which joins reports into an HTML page, a Markdown file, a JSON file and one SVG file
//! per curve.
//!
//! `report.html` is self-contained (no script, no external resource; light and dark) and draws curves as inline SVG.
//! `report.md` contains the tables, and `report.json` contains everything under one schema. The output contains no
//! times and no host names, so equal reports give equal bytes.

pub mod html;
pub mod markdown;
pub mod merge;
pub mod numbers;
pub mod scale;
pub mod svg;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;
use trainyard_api::report::StageReport;
use trainyard_api::stage::Ports;
use trainyard_api::{Stage, StageContext, port};
use trainyard_core::error::io_error;
use trainyard_core::{ArtifactKind, Cardinality, DeclaredMetrics, Error, Placement, Producers, Result};

/// Options of `report`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReportConfig {
    /// Heading of the page.
    pub title: String,
    /// Sentence under the heading.
    pub summary: String,
}

impl Default for ReportConfig {
    fn default() -> Self {
        Self { title: "Report".into(), summary: String::new() }
    }
}

#[derive(Default)]
pub struct JoinReports;

impl Stage for JoinReports {
    type Prepared = ReportConfig;
    const NAME: &'static str = "report";
    const VERSION: u32 = 3;
    const SUMMARY: &'static str =
        "Join reports into one self-contained HTML page with learning curves, a Markdown file and a JSON file.";
    const DOC: &'static str = "\
        Joins reports in the order in which they are wired. Writes `report.html` (self-contained: no script, no \
        external resource), `report.md`, `report.json` and one SVG file per curve.\n\n\
        Metrics and comparisons keep their names. If several reports use a name, each gets the position of its report \
        as a prefix, counted from 1 (`2.tokens`). A failed check on this stage fails the run and keeps the page.";
    const EXAMPLE: &'static str =
        r#"{"reports": ["${{ stages.sft.report }}", "${{ stages.evaluate.report }}"], "title": "Quickstart"}"#;
    const PLACEMENT: Placement = Placement::Process;

    fn metrics(&self) -> DeclaredMetrics {
        DeclaredMetrics { open: true, ..DeclaredMetrics::default() }
    }
    fn declared_metrics(&self, _: &ReportConfig, producers: &Producers) -> DeclaredMetrics {
        merge::declared(producers.get("reports").map_or(&[][..], Vec::as_slice))
    }
    fn ports(&self) -> Ports {
        Ports {
            inputs: vec![port(
                "reports",
                ArtifactKind::Report,
                Cardinality::Many,
                "Reports, in the order of the page.",
            )],
            outputs: vec![port(
                "report",
                ArtifactKind::Report,
                Cardinality::One,
                "report.html, report.md, report.json and the curves as SVG.",
            )],
        }
    }

    fn prepare(&self, options: Value) -> Result<ReportConfig> {
        self.parse(options)
    }

    fn run(&self, config: ReportConfig, context: &mut StageContext) -> Result<()> {
        let reports =
            context.many("reports").iter().map(|a| StageReport::read(&a.folder)).collect::<Result<Vec<_>>>()?;
        if reports.is_empty() {
            return Err(Error::invalid("no report to join").help("wire `reports` to the reports of other stages"));
        }
        let joined = merge::merge(&config.title, &config.summary, &reports);
        for (name, metric) in &joined.metrics {
            context.metric(name.clone(), metric.value);
        }
        context.comparisons.clone_from(&joined.comparisons);
        write(&config, &reports, &joined, context.output("report")?)
    }
}

impl trainyard_api::PreparedOptions for ReportConfig {
    type Config = Self;
    fn config(&self) -> &Self {
        self
    }
}

/// Writes all files of the artifact.
pub fn write(config: &ReportConfig, reports: &[StageReport], joined: &StageReport, folder: &Path) -> Result<()> {
    joined.write(folder)?;
    save(&folder.join("report.html"), &html::page(&config.title, &config.summary, reports)?)?;
    save(&folder.join("report.md"), &markdown::page(&config.title, &config.summary, reports))?;
    for (i, curve) in reports.iter().flat_map(|r| &r.curves).enumerate() {
        save(&folder.join(format!("curve-{:02}.svg", i + 1)), &svg::standalone(curve))?;
    }
    Ok(())
}

fn save(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|e| io_error(path, &e))
}

#[cfg(test)]
mod tests;
