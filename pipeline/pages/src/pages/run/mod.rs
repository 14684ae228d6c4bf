//! A run: tiles, graph, curves, stages, timeline, parameters. `?part=NAME` returns one section for the live page.

mod charts;
mod curves;
mod dag;
mod data;
mod query;
mod stages;
#[cfg(test)]
mod tests;
mod tiles;
mod timeline;

pub use charts::{StageCurves, draw as draw_curves};
pub use curves::rollouts;
pub use query::RunQuery;

use crate::areas;
use crate::error::{PageError, PageResult};
use crate::layout::{Document, Heading, document};
use crate::links;
use crate::live::LiveRuns;
use crate::pages::actions;
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text;
use axum::extract::{Extension, Path, Query, State};
use data::{RunData, reporting};
use maud::{Markup, html};
use std::sync::Arc;
use trainyard_core::Result;
use trainyard_engine::fold::RunView;
use trainyard_runtime::progress::read_progress_of;
use trainyard_views::annotations;
use trainyard_views::graph::GraphView;
use trainyard_views::status::{is_live, state};

/// Maximum characters of a parameter.
const MAX_PARAM: usize = 2_000;

/// Shows a run, or one of its sections.
pub async fn show(
    State(app): State<Arc<PageState>>,
    Extension(live): Extension<Arc<LiveRuns>>,
    page: PageRequest,
    Path(name): Path<String>,
    Query(query): Query<RunQuery>,
) -> PageResult {
    let run = live.find(&app.store, &name).await?;
    let view = live.followed.view(&app.store, &run).await?;
    let is_live = is_live(&view, app.clock.as_ref());
    let data = RunData { app: &app, live: &live, links: &page.links, run, view, is_live, query };
    match data.query.part.as_deref() {
        None => {
            let buttons = actions::of_run(&page, &data.run.0, state(&data.view, app.clock.as_ref()));
            let content = content(&data).await?;
            Ok(document(&page.links, &heading(&data), &html! { (buttons) (content) }))
        }
        Some("graph") => Ok(Document(graph(&data))),
        Some("curves") => Ok(Document(curves::section(&data).await?)),
        Some("stages") => Ok(Document(stages::section(&data).await?)),
        Some("timeline") => Ok(Document(timeline::section(&data.view, data.links, &data.run))),
        Some(other) => {
            let error = PageError::not_found(format!("a run has no part {other:?}"));
            Err(error.help("the parts are graph, curves, stages and timeline"))
        }
    }
}

fn heading(data: &RunData<'_>) -> Heading {
    let name = if data.view.workflow.is_empty() { "Run" } else { data.view.workflow.as_str() };
    Heading::new(&areas::RUNS, format!("{name} · {}", data.run)).below(data.links.to(&[]), "Runs")
}

async fn content(data: &RunData<'_>) -> Result<Markup> {
    let first = reporting(&data.view, |_| true);
    let progress = read_progress_of(&data.app.store, &data.run, first).await?;
    let is_open = data.view.finished.is_none();
    let tags = annotations::tags_of(&data.app.store, &data.run).await?;
    let address = format!("{}/events", data.links.run(&data.run.0));
    Ok(html! {
        div #live data-events=[is_open.then_some(address)] {
            @if !tags.is_empty() {
                p { @for tag in &tags { span .tag { (text::visible(tag)) } " " } }
            }
            (related(data))
            (tiles::tiles(&data.view, &progress, data.app.clock.as_ref()))
            p #live-note .muted role="status" { }
            @if let Some(why) = &data.view.cancel_requested {
                p .failure { "Cancellation was requested: " (text::cut(why, 500).0) }
            }
            @if !data.is_live {
                p .failure {
                    "Nothing runs: the writer of this run is gone. "
                    code { "trainyard runs resume " (data.run) } " continues it."
                }
            }
            section aria-labelledby="graph-title" {
                h2 #graph-title { "Graph" }
                div data-fragment="graph" { (graph(data)) }
            }
            section aria-labelledby="curves-title" {
                h2 #curves-title { "Learning curves" }
                (data.query.curve_form())
                div data-fragment="curves" { (curves::section(data).await?) }
            }
            section #stages aria-labelledby="stages-title" {
                h2 #stages-title { "Stages" }
                (data.query.stage_form(&data.view, data.is_live))
                div data-fragment="stages" { (stages::section(data).await?) }
            }
            section aria-labelledby="timeline-title" {
                h2 #timeline-title { "Timeline" }
                div data-fragment="timeline" { (timeline::section(&data.view, data.links, &data.run)) }
            }
            (about(data))
        }
    })
}

/// Links to the other pages of the run.
fn related(data: &RunData<'_>) -> Markup {
    let run = data.run.0.as_str();
    let has_sweep = data.view.stages.iter().any(|stage| stage.stage.0.0.contains('['));
    html! {
        @if !data.links.is_static() {
            nav .pages aria-label="Pages of the run" {
                a href=(format!("{}{}", data.links.to(&["artifacts"]), links::query(&[("run", run)]))) { "Artifacts" }
                @if has_sweep { a href=(data.links.to(&["runs", run, "sweep"])) { "Sweep" } }
                a href=(data.links.to(&["runs", run, "tags"])) { "Tags" }
            }
        }
    }
}

fn graph(data: &RunData<'_>) -> Markup {
    dag::draw(&GraphView::of(&data.view), &data.view, data.is_live, data.links, &data.run)
}

/// Shows the parameters and the source.
fn about(data: &RunData<'_>) -> Markup {
    let view = &data.view;
    html! {
        section aria-labelledby="about-title" {
            h2 #about-title { "Parameters and source" }
            @if view.params.is_empty() {
                p .empty { "The workflow has no parameters." }
            } @else {
                (crate::layout::scrolling("Parameters", &html! {
                    table {
                        thead { tr { th { "Parameter" } th { "Value" } } }
                        tbody {
                            @for (name, value) in &view.params {
                                tr {
                                    td .mono { (text::visible(name)) }
                                    td .mono.wide { (text::cut(&value.to_string(), MAX_PARAM).0) }
                                }
                            }
                        }
                    }
                }))
            }
            dl .facts {
                dt { "Workflow file" } dd .mono { (text::visible(&view.source)) }
                dt { "Created" } dd { (trainyard_core::units::format_time(view.created)) }
                @if let Some(digest) = &view.plan_digest { dt { "Plan" } dd .mono { (digest) } }
                dt { "Writer" } dd .mono { (text::visible(&view.writer.name)) }
                @for (name, list) in selection(view) { dt { (name) } dd .mono { (text::cut(&list, MAX_PARAM).0) } }
            }
        }
    }
}

/// Returns the options that selected a part of the plan.
fn selection(view: &RunView) -> Vec<(&'static str, String)> {
    let chosen = &view.selection;
    let lists = [("Until", &chosen.until), ("Only", &chosen.only), ("Rerun", &chosen.rerun)];
    lists.into_iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| (name, list.join(", "))).collect()
}
