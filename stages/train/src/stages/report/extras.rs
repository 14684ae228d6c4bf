//! Adds sections to the joined reports: sweeps, sample episodes, params and digests.

use super::config::ReportConfig;
use crate::sweep::{Sweep, SweepRun};
use std::collections::BTreeSet;
use trainyard_api::InputArtifact;
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_core::{AxisInstance, Result};
use trainyard_tables::{EpisodeStatus, Message, Trajectory, read_trajectories};

/// Number of sample episodes.
const EPISODES: usize = 3;
/// Number of characters of a message that are shown.
const SHOWN_CHARACTERS: usize = 600;
/// Metrics of a chart unless the options name another; the first that a sweep has.
const CHARTS: [&str; 5] = ["accuracy", "validation_accuracy", "reward_mean", "validation_loss", "loss"];

/// Adds the axes of the instances to the titles of their reports.
pub fn name_axes(instances: &[AxisInstance], reports: &mut [StageReport]) {
    for (instance, report) in instances.iter().zip(reports) {
        if !instance.axes.is_empty() {
            report.title = format!("{} {}", report.title, instance.suffix());
        }
    }
}

/// Returns a section for every stage of which several instances are wired: the metrics that its tables do not show yet.
pub fn sweeps(config: &ReportConfig, reports: &[StageReport]) -> Vec<StageReport> {
    let shown = |report: &StageReport| -> Vec<String> {
        report.metrics.iter().filter(|(_, metric)| !metric.detail).map(|(name, _)| name.clone()).collect()
    };
    let names: BTreeSet<String> = reports.iter().flat_map(shown).chain(config.chart.clone()).collect();
    let metrics: Vec<String> = names.into_iter().collect();
    let runs: Vec<SweepRun<'_>> = config
        .instances
        .iter()
        .zip(reports)
        .map(|(instance, report)| SweepRun {
            instance,
            values: metrics.iter().map(|name| report.metrics.get(name).map(|m| m.value)).collect(),
        })
        .collect();
    Sweep::of_stages(&metrics, &runs).iter().map(|sweep| section(config, sweep, &metrics)).collect()
}

fn section(config: &ReportConfig, sweep: &Sweep<'_>, metrics: &[String]) -> StageReport {
    let mut report = StageReport::new(format!("Sweep of {} over {}", sweep.stage, sweep.over()));
    report.table(sweep.table());
    let wanted = config.chart.iter().map(String::as_str).chain(CHARTS);
    if let Some(chart) = wanted.chain(metrics.iter().map(String::as_str)).find_map(|metric| sweep.chart(metric)) {
        report.curve(chart);
    }
    report.note("Means over the axis `seed`, with standard deviations (sd) over seeds.");
    report
}

/// Returns a section with three episodes, counted from the end, where the rollouts of the last model are: a right one,
/// a wrong one, and the next.
pub fn episodes(artifacts: &[InputArtifact]) -> Result<Option<StageReport>> {
    let mut rows: Vec<Trajectory> = Vec::new();
    for artifact in artifacts {
        rows.extend(read_trajectories(&artifact.parquet())?);
    }
    let ended = |row: &Trajectory| row.status == EpisodeStatus::Ok;
    let right = rows.iter().rposition(|row| ended(row) && row.reward >= 1.0);
    let wrong = rows.iter().rposition(|row| ended(row) && row.reward < 1.0);
    let mut chosen: Vec<usize> = right.into_iter().chain(wrong).collect();
    let others: Vec<usize> = (0..rows.len()).rev().filter(|place| !chosen.contains(place)).collect();
    chosen.extend(others.into_iter().take(EPISODES - chosen.len()));
    if chosen.is_empty() {
        return Ok(None);
    }
    let mut report = StageReport::new("Sample episodes");
    for row in chosen.into_iter().filter_map(|place| rows.get(place)) {
        let mut table = Table::new(format!("{}, reward {}", row.id, row.reward), ["role", "message"]);
        for message in &row.messages {
            table.row([ReportCell::text(&message.role), ReportCell::text(shown_text(message))]);
        }
        report.table(table);
    }
    Ok(Some(report))
}

/// Returns the text of a message with its tool calls, cut after [`SHOWN_CHARACTERS`].
fn shown_text(message: &Message) -> String {
    let calls = message.tool_calls.as_deref().unwrap_or_default();
    let text = [message.content.as_str(), calls].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    let text = text.join("\n");
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns a section with the params of the workflow and the digests of the reports.
pub fn origin(config: &ReportConfig, wired: &[InputArtifact], reports: &[StageReport]) -> StageReport {
    let mut section = StageReport::new("Params and digests");
    if !config.params.is_empty() {
        let mut params = Table::new("Params", ["param", "value"]);
        for (name, value) in &config.params {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            params.row([ReportCell::text(name), ReportCell::text(text)]);
        }
        section.table(params);
    }
    let mut digests = Table::new("Reports", ["report", "stage", "digest of the stage", "digest of the report"]);
    for (place, (artifact, report)) in wired.iter().zip(reports).enumerate() {
        let stage = config.instances.get(place).map_or(ReportCell::Empty, |i| ReportCell::text(&i.name));
        digests.row([
            ReportCell::text(&report.title),
            stage,
            ReportCell::text(artifact.stage_digest.to_string()),
            ReportCell::text(artifact.digest.to_string()),
        ]);
    }
    section.table(digests);
    section
}
