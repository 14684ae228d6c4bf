//! Curves of the running stages of a run, or else of those that ended last, with those of other runs over them.

use super::charts::{StageCurves, draw};
use super::data::RunData;
use crate::layout::empty;
use crate::links::Links;
use crate::text;
use maud::{Markup, html};
use trainyard_core::{ArtifactKind, Result, RunId};
use trainyard_engine::fold::{RunView, StageStatus, StageView};
use trainyard_views::followed::attempts_with_streams;
use trainyard_views::graph::without_axes;

/// Maximum number of stages or fan-outs with curves.
const MAX_GROUPS: usize = 2;
/// Stages that ended, of which curves are looked for.
const MAX_TRIES: usize = 6;
/// Instances of a fan-out whose curves are read.
const MAX_INSTANCES: usize = 8;

/// Draws the curves.
pub async fn section(data: &RunData<'_>) -> Result<Markup> {
    let options = data.query.curve_options();
    let mut overlays = Vec::new();
    let mut problems = Vec::new();
    for name in &options.with {
        match overlay(data, name).await {
            Ok(other) => overlays.push(other),
            Err(error) => problems.push(format!("{name} is not drawn: {error}")),
        }
    }
    let mut groups: Vec<Markup> = Vec::new();
    for group in candidates(&data.view) {
        let mut lines = lines_of(data, &data.run, &data.view, &group, "").await?;
        if lines.iter().all(|line| line.curves.is_empty()) {
            continue;
        }
        for (run, view) in &overlays {
            lines.extend(lines_of(data, run, view, &group, &format!(" of {run}")).await?);
        }
        let main = instances(&data.view, &group).find_map(|stage| stage.main_metric.as_deref());
        groups.push(html! { h3 { (text::visible(&group)) } (draw(&lines, main, &options)) });
        if groups.len() == MAX_GROUPS {
            break;
        }
    }
    Ok(html! {
        @for problem in &problems { p .failure { (text::visible(problem)) } }
        @if groups.is_empty() {
            @let is_open = data.view.finished.is_none();
            (empty(if is_open { "No stage has reported a curve yet." } else { "No stage reported a curve." }))
        }
        @for group in &groups { (group) }
    })
}

/// Returns the state of an overlaid run.
async fn overlay(data: &RunData<'_>, name: &str) -> Result<(RunId, std::sync::Arc<RunView>)> {
    let run = data.live.find(&data.app.store, name).await?;
    let view = data.live.followed.view(&data.app.store, &run).await?;
    Ok((run, view))
}

/// Returns the stage ids whose curves may be drawn: those that run, then those that ended last.
fn candidates(view: &RunView) -> Vec<String> {
    let with_curves = view.stages.iter().filter(|stage| !attempts_with_streams(stage).is_empty());
    let mut stages: Vec<&StageView> = with_curves.collect();
    let is_over = |stage: &StageView| stage.status != StageStatus::Running;
    stages.sort_by_key(|stage| (is_over(stage), std::cmp::Reverse(stage.ended.or(stage.started))));
    let mut names: Vec<String> = Vec::new();
    for stage in stages {
        let name = without_axes(&stage.key().0);
        if !names.contains(&name) {
            names.push(name);
        }
        if names.len() == MAX_TRIES {
            break;
        }
    }
    names
}

fn instances<'a>(view: &'a RunView, group: &str) -> impl Iterator<Item = &'a StageView> {
    view.stages.iter().filter(move |stage| without_axes(&stage.key().0) == group)
}

async fn lines_of(
    data: &RunData<'_>,
    run: &RunId,
    view: &RunView,
    group: &str,
    suffix: &str,
) -> Result<Vec<StageCurves>> {
    let mut lines = Vec::new();
    let with_curves = instances(view, group).filter(|stage| !attempts_with_streams(stage).is_empty());
    for stage in with_curves.take(MAX_INSTANCES) {
        let curves = data.live.followed.curves(&data.app.store, run, stage).await?;
        let label = format!("{}{suffix}", stage.key());
        lines.push(StageCurves { label, curves, rollouts: rollouts(stage, data.links) });
    }
    Ok(lines)
}

/// Returns the address of the trajectories that a stage published.
pub fn rollouts(stage: &StageView, links: &Links) -> Option<String> {
    let digest = stage.digest.as_ref()?.to_string();
    let found = stage.outputs.iter().find(|(_, output)| output.kind == ArtifactKind::Trajectories);
    found.map(|(output, _)| links.rollouts(&digest, output))
}
