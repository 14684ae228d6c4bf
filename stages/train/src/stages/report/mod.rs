//! Implements the stage `report`, which joins reports into an HTML page, a Markdown file, a JSON file and one SVG file
//! per curve.
//!
//! `report.html` is self-contained (no script, no external resource; light and dark) and draws curves as inline SVG.
//! `report.md` contains the tables, and `report.json` contains everything under one schema. The output contains no
//! times and no host names, so equal reports give equal bytes.

mod config;
mod extras;
pub mod html;
pub mod markdown;
pub mod merge;
pub mod numbers;
pub mod scale;
pub mod svg;

pub use config::ReportConfig;

use serde_json::Value;
use std::path::Path;
use trainyard_api::report::StageReport;
use trainyard_api::stage::{Ports, refuse};
use trainyard_api::{PreparedOptions, Stage, StageContext, port};
use trainyard_core::error::io_error;
use trainyard_core::{ArtifactKind, Cardinality, DeclaredMetrics, Error, Placement, Producers, Result};

#[derive(Default)]
pub struct JoinReports;

impl Stage for JoinReports {
    type Prepared = ReportConfig;
    const NAME: &'static str = "report";
    const VERSION: u32 = 4;
    const SUMMARY: &'static str =
        "Join reports into one self-contained HTML page with learning curves, a Markdown file and a JSON file.";
    const DOC: &'static str = "\
        Joins reports in the order in which they are wired. Writes `report.html` (self-contained: no script, no \
        external resource), `report.md`, `report.json` and one SVG file per curve.\n\n\
        Metrics and comparisons keep their names. If several reports use a name, each gets the position of its report \
        as a prefix, counted from 1 (`2.tokens`).\n\n\
        Reports of a matrix are titled by their axes. A sweep, two or more instances of one stage, is one table with \
        the axes as columns, the mean and the standard deviation of each metric over the axis `seed`, and a chart over \
        the first numeric axis. The page ends with three of the last episodes of `trajectories` (a right one, a \
        wrong one and the next), the params of the workflow and the digests of the reports.\n\n\
        A failed check on this stage fails the run and keeps the page.";
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
            inputs: vec![
                port("reports", ArtifactKind::Report, Cardinality::Many, "Reports, in the order of the page."),
                port(
                    "trajectories",
                    ArtifactKind::Trajectories,
                    Cardinality::Many,
                    "Rollouts of which three are shown.",
                ),
            ],
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
        refuse(config.problems_with(&context.wired()))?;
        let wired = context.many("reports");
        let mut reports = wired.iter().map(|a| StageReport::read(&a.folder)).collect::<Result<Vec<_>>>()?;
        if reports.is_empty() {
            return Err(Error::invalid("no report to join").help("wire `reports` to the reports of other stages"));
        }
        extras::name_axes(&config.instances, &mut reports);
        let sweeps = extras::sweeps(&config, &reports);
        let mut last = Vec::new();
        last.extend(extras::episodes(context.many("trajectories"))?);
        last.push(extras::origin(&config, wired, &reports));
        // The added sections come last, so that the numbers in metric names are the places of the wired reports.
        let all: Vec<StageReport> = reports.iter().chain(&sweeps).chain(&last).cloned().collect();
        let joined = merge::merge(&config.title, &config.summary, &all);
        for (name, metric) in &joined.metrics {
            context.metric(name.clone(), metric.value);
        }
        context.comparisons.clone_from(&joined.comparisons);
        let page: Vec<StageReport> = sweeps.into_iter().chain(reports).chain(last).collect();
        write(&config, &page, &joined, context.output("report")?)
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
