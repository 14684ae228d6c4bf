//! Table of a run's stages.

use super::data::{RunData, reporting};
use crate::layout::{empty, scrolling, status};
use crate::progress::{ProgressText, metric};
use crate::text;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::progress::ProgressRecord;
use trainyard_core::{Result, StageKey};
use trainyard_engine::fold::{StageStatus, StageView};
use trainyard_runtime::progress::read_progress_of;
use trainyard_views::explain::holders;
use trainyard_views::graph::without_axes;

/// Stages on one page.
const PAGE: usize = 200;
/// Waiting stages on a page whose holders are named.
const MAX_HOLDERS: usize = 20;
/// Maximum characters of a reason or an error.
const MAX_REASON: usize = 300;

/// Shows a page of the table.
pub async fn section(data: &RunData<'_>) -> Result<Markup> {
    let selected: Vec<&StageView> = data.view.stages.iter().filter(|stage| is_selected(data, stage)).collect();
    let from = data.query.first_stage().min(selected.len());
    let shown = &selected[from..selected.len().min(from + PAGE)];
    let keys: BTreeSet<&StageKey> = shown.iter().map(|stage| stage.key()).collect();
    let open = reporting(&data.view, |key| keys.contains(key));
    let progress = read_progress_of(&data.app.store, &data.run, open).await?;
    if shown.is_empty() {
        return Ok(empty(if data.view.stages.is_empty() {
            "The run has no stages."
        } else {
            "No stage fits the filter."
        }));
    }
    Ok(html! {
        (scrolling("Stages", &table(data, shown, &progress)))
        nav .pages aria-label="More stages" {
            span .muted { "Stages " (from + 1) " to " (from + shown.len()) " of " (selected.len()) }
            @if from > 0 {
                @let previous = data.query.address_from(from.saturating_sub(PAGE));
                a rel="prev" href=(format!("{}{previous}#stages", data.links.run(&data.run.0))) { "Earlier stages" }
            }
            @if from + shown.len() < selected.len() {
                @let next = data.query.address_from(from + shown.len());
                a rel="next" href=(format!("{}{next}#stages", data.links.run(&data.run.0))) { "Later stages" }
            }
        }
    })
}

fn is_selected(data: &RunData<'_>, stage: &StageView) -> bool {
    let (group, status) = (data.query.group.trim(), data.query.status.as_str());
    let key = &stage.key().0;
    let in_group = group.is_empty() || key == group || without_axes(key) == group;
    in_group && (status.is_empty() || stage.shown_status(data.is_live) == status)
}

fn table(data: &RunData<'_>, stages: &[&StageView], progress: &BTreeMap<StageKey, ProgressRecord>) -> Markup {
    let is_waiting = |stage: &&&StageView| matches!(stage.status, StageStatus::Queued | StageStatus::Waiting);
    let waiting = stages.iter().filter(is_waiting).take(MAX_HOLDERS);
    let held: BTreeMap<&StageKey, Vec<String>> =
        waiting.map(|stage| (stage.key(), holders(&data.view, stage))).collect();
    html! {
        table .stages {
            thead {
                tr {
                    th { "Stage" } th { "Status" } th { "Kind" } th .n { "Time" } th .n { "Attempts" }
                    th { "Progress" } th { "Why, error" }
                }
            }
            tbody {
                @for stage in stages {
                    (row(data, stage, progress.get(stage.key()), held.get(stage.key())))
                }
            }
        }
    }
}

fn row(data: &RunData<'_>, stage: &StageView, progress: Option<&ProgressRecord>, held: Option<&Vec<String>>) -> Markup {
    let key = &stage.key().0;
    let progress = progress.map(ProgressText::of).unwrap_or_default();
    let main = stage.main_metric.as_ref().and_then(|name| Some(metric(name, *stage.metrics.get(name)?)));
    html! {
        tr data-stage=(text::visible(key)) {
            td .wide { a .mono href=(data.links.stage(&data.run.0, key)) { (text::cut(key, 200).0) } }
            td data-part="status" { (status(stage.shown_status(data.is_live))) }
            td { (text::visible(&stage.kind)) }
            td .n data-part="time" { @if let Some(seconds) = stage.seconds() { (text::seconds(seconds)) } }
            td .n data-part="attempts" { (stage.attempts.len()) }
            td data-part="progress" { (main.unwrap_or_else(|| progress_line(&progress))) }
            td .wide {
                span data-part="why" { @if let Some(why) = &stage.why { (text::cut(why, MAX_REASON).0) } }
                @for line in held.into_iter().flatten() { br; span .muted { (text::cut(line, MAX_REASON).0) } }
                span .failure data-part="error" {
                    @if let Some(error) = stage.error.as_ref().filter(|_| stage.status == StageStatus::Failed) {
                        (text::cut(&error.to_string(), MAX_REASON).0)
                    }
                }
            }
        }
    }
}

/// Joins the parts of a progress, as the script does.
fn progress_line(progress: &ProgressText) -> String {
    let left = if progress.left.is_empty() { String::new() } else { format!("{} left", progress.left) };
    let parts = [progress.step.as_str(), &progress.rate, &left, &progress.metric];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}
