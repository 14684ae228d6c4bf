//! A stage of a run: why it has its state, attempts, curves, log, outputs, metrics, configuration. `?part=NAME` returns
//! one section for the live page.

mod config;
mod data;
mod log;
mod sections;
#[cfg(test)]
mod tests;

use super::run::{StageCurves, draw_curves, rollouts};
use crate::areas;
use crate::error::{PageError, PageResult};
use crate::layout::{Document, Heading, document, status};
use crate::live::LiveRuns;
use crate::progress::{ProgressText, metric};
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text;
use axum::extract::{Extension, Path, Query, State};
use data::{StageData, StageQuery};
use log::LogOptions;
use maud::{Markup, html};
use std::sync::Arc;
use trainyard_core::{Result, StageKey};
use trainyard_engine::fold::StageView;
use trainyard_runtime::progress::{read_progress_of, reporting_attempts};
use trainyard_views::followed::attempts_with_streams;
use trainyard_views::graph;
use trainyard_views::stage::{StageDetails, details};
use trainyard_views::status::is_live;

/// Shows a stage, or one of its sections.
pub async fn show(
    State(app): State<Arc<PageState>>,
    Extension(live): Extension<Arc<LiveRuns>>,
    page: PageRequest,
    Path((name, stage)): Path<(String, String)>,
    Query(query): Query<StageQuery>,
) -> PageResult {
    let run = live.find(&app.store, &name).await?;
    let view = live.followed.view(&app.store, &run).await?;
    if view.stage(&StageKey(stage.clone())).is_none() {
        let error = PageError::not_found(format!("run {run} has no stage {}", text::cut(&stage, 200).0));
        return Err(error.help("the page of the run lists its stages"));
    }
    if matches!(query.part.as_deref(), None | Some("settings")) {
        app.make_catalogue().await?;
    }
    let data = StageData { app: &app, live: &live, links: &page.links, run, view, key: StageKey(stage), query };
    match data.query.part.as_deref() {
        None => Ok(document(&page.links, &heading(&data), &content(&data).await?)),
        Some("curves") => Ok(Document(curves(&data).await?)),
        Some("log") => Ok(Document(log::lines(&data, &log_options(&data)?).await?)),
        Some("state") => Ok(Document(state(&data, &read_details(&data).await?).await?)),
        Some("settings") => Ok(Document(settings(&data, &read_details(&data).await?)?)),
        Some(other) => {
            let error = PageError::not_found(format!("a stage has no part {other:?}"));
            Err(error.help("the parts are curves, log, settings and state"))
        }
    }
}

fn heading(data: &StageData<'_>) -> Heading {
    let run = &data.run.0;
    Heading::new(&areas::RUNS, data.key.0.clone()).below(data.links.to(&[]), "Runs").below(data.links.run(run), run)
}

fn log_options(data: &StageData<'_>) -> std::result::Result<LogOptions, PageError> {
    LogOptions::of(&data.query.attempt, &data.query.find, &data.query.at)
}

async fn content(data: &StageData<'_>) -> std::result::Result<Markup, PageError> {
    let is_open = data.view.finished.is_none();
    let events = format!("{}/events", data.links.run(&data.run.0));
    let (stage, options) = (data.stage()?, log_options(data)?);
    let details = read_details(data).await?;
    Ok(html! {
        div #live data-events=[is_open.then_some(events)] data-stage-page=(text::visible(&data.key.0)) {
            div data-fragment="state" { (state(data, &details).await?) }
            p #live-note .muted role="status" { }
            section aria-labelledby="curves-title" {
                h2 #curves-title { "Learning curves" }
                (curve_form(data))
                div data-fragment="curves" { (curves(data).await?) }
            }
            section #log aria-labelledby="log-title" {
                h2 #log-title { "Log" }
                (log::form(data, stage))
                (log::lines(data, &options).await?)
            }
            div data-fragment="settings" { (settings(data, &details)?) }
        }
    })
}

async fn read_details(data: &StageData<'_>) -> Result<StageDetails> {
    details(&data.app.store, &data.run, &data.view, data.stage()?).await
}

/// Shows the inputs and the configuration of the stage.
fn settings(data: &StageData<'_>, details: &StageDetails) -> Result<Markup> {
    let kind = &data.stage()?.kind;
    Ok(html! { (sections::inputs(details, data.links)) (config::config(data, kind, details)) })
}

/// Shows progress, reasons, attempts, outputs and metrics of the stage.
async fn state(data: &StageData<'_>, details: &StageDetails) -> Result<Markup> {
    let stage = data.stage()?;
    let open = reporting_attempts(&data.view).into_iter().filter(|(key, _)| *key == data.key).collect();
    let progress = read_progress_of(&data.app.store, &data.run, open).await?;
    let progress = progress.get(&data.key).map(ProgressText::of).unwrap_or_default();
    Ok(html! {
        (tiles(data, stage, &progress))
        (why(data, stage, details))
        (sections::attempts(stage))
        (sections::outputs(stage, data.links))
        (sections::metrics(stage))
    })
}

fn tiles(data: &StageData<'_>, stage: &StageView, progress: &ProgressText) -> Markup {
    let is_live = is_live(&data.view, data.app.clock.as_ref());
    let main = stage.main_metric.as_ref().and_then(|name| Some(metric(name, *stage.metrics.get(name)?)));
    #[expect(clippy::cast_precision_loss, reason = "a time is shown")]
    let waited = stage.waited.max(0) as f64 / 1_000.0;
    let tile = |name: &str, part: &str, value: &str| {
        html! {
            div .long[part == "metric"] {
                dt { (name) }
                dd data-part=(part) { (if value.is_empty() { "–" } else { value }) }
            }
        }
    };
    html! {
        dl .tiles data-stage=(text::visible(&data.key.0)) {
            div { dt { "Status" } dd data-part="status" { (status(stage.shown_status(is_live))) } }
            div { dt { "Kind" } dd { (text::visible(&stage.kind)) } }
            (tile("Time", "time", &stage.seconds().map(text::seconds).unwrap_or_default()))
            @if stage.waited > 0 { (tile("Waited for the machine", "waited", &text::seconds(waited))) }
            (tile("Attempts", "attempts", &stage.attempts.len().to_string()))
            @if !stage.status.is_final() {
                (tile("Step", "step", &progress.step))
                (tile("Rate", "rate", &progress.rate))
                (tile("Time left", "left", &progress.left))
            }
            (tile("Main metric", "metric", &main.unwrap_or_else(|| progress.metric.clone())))
        }
    }
}

/// Explains the state of the stage.
fn why(data: &StageData<'_>, stage: &StageView, details: &StageDetails) -> Markup {
    html! {
        section aria-labelledby="why-title" {
            h2 #why-title { "Why" }
            ul .why {
                @for line in &details.explanation { li { (text::cut(line, 4_000).0) } }
                @for line in &details.holders { li { (text::cut(line, 1_000).0) } }
                @if let Some(origin) = &details.origin {
                    li {
                        "taken from the cache: generation " (origin.generation) ", which stage "
                        a href=(data.links.stage(&origin.run.0, &origin.stage.0)) { (text::visible(&origin.stage.0)) }
                        " of run "
                        a href=(data.links.run(&origin.run.0)) { (text::visible(&origin.run.0)) }
                        " published"
                    }
                }
            }
            @if !stage.after.is_empty() {
                p {
                    "Needs: "
                    @for (number, key) in stage.after.iter().take(50).enumerate() {
                        @if number > 0 { ", " }
                        a .mono href=(data.links.stage(&data.run.0, &key.0)) { (text::cut(&key.0, 120).0) }
                    }
                    @if stage.after.len() > 50 { " and " (stage.after.len() - 50) " more" }
                }
            }
        }
    }
}

fn curve_form(data: &StageData<'_>) -> Markup {
    let query = &data.query;
    html! {
        form .filters method="get" {
            label { "Smoothing (0 to 0.99)"
                input type="number" name="smooth" min="0" max="0.99" step="0.01" value=(query.smooth); }
            label { "Metrics (all, or a part of their names)"
                input type="search" name="metrics" value=(query.metrics); }
            label .check { input type="checkbox" name="log" value="1" checked[query.log == "1"]; "Log scale" }
            button type="submit" { "Draw" }
            @let group = graph::without_axes(&data.key.0);
            @if group != data.key.0 {
                @let others = crate::links::query(&[("group", &group)]);
                a href=(format!("{}{others}#stages", data.links.run(&data.run.0))) { "Other instances" }
            }
        }
    }
}

async fn curves(data: &StageData<'_>) -> Result<Markup> {
    let stage = data.stage()?;
    if attempts_with_streams(stage).is_empty() {
        return Ok(crate::layout::empty("The stage has no curves in this run."));
    }
    let curves = data.live.followed.curves(&data.app.store, &data.run, stage).await?;
    let line = StageCurves { label: data.key.0.clone(), curves, rollouts: rollouts(stage, data.links) };
    let options = super::run::RunQuery {
        smooth: data.query.smooth.clone(),
        log: data.query.log.clone(),
        metrics: data.query.metrics.clone(),
        ..Default::default()
    };
    Ok(draw_curves(&[line], stage.main_metric.as_deref(), &options.curve_options()))
}
