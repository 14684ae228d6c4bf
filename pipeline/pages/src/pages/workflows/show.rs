//! Page of a workflow file: a form of its params, the plan with these values, a button that starts a run, and its runs.

use super::fields;
use crate::areas;
use crate::error::{PageError, PageResult};
use crate::forms;
use crate::layout::{Heading, document, empty, scrolling};
use crate::links::Links;
use crate::outcomes;
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use maud::{Markup, html};
use std::sync::Arc;
use trainyard_daemon::control::WorkflowPreview;
use trainyard_daemon::plan_summary::PlanSummary;
use trainyard_daemon::requests::{self, RequestedRun};

/// Maximum stages and runs on the page.
const SHOWN: usize = 200;

/// Shows a file, with the values of the address.
pub async fn show(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path(file): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
) -> PageResult {
    let daemon = app.daemon()?;
    let known = daemon.file(&file)?;
    let given = fields::values(&query);
    let (control, name, arguments) = (daemon.clone(), file.clone(), fields::arguments(&given)?);
    let compiling = tokio::task::spawn_blocking(move || control.preview(&name, &arguments));
    let preview = compiling.await.map_err(|e| ended_early(&e))??;
    let runs = requests::recent(&app.store, &known.workflow).await?;
    let values = fields::without_defaults(given.clone(), &preview.params);
    let links = &page.links;
    let started = query.iter().find(|(name, _)| name == "started").map(|(_, run)| run.as_str());
    let content = html! {
        @if let Some(run) = started { (started_note(links, run)) }
        p {
            "Workflow " strong { (text::visible(&known.workflow)) }
            @if known.is_scheduled { ", " a href=(links.schedule(&known.workflow)) { "its schedule" } } "."
        }
        h2 { "Params" }
        form .params method="get" action=(links.workflow(&file)) {
            @if preview.params.is_empty() { (empty("The workflow has no params.")) }
            (fields::fields(&preview.params, &given))
            @if !preview.params.is_empty() { button type="submit" { "Plan with these values" } }
        }
        h2 { "Plan" }
        (plan(&page, &file, &preview, &values))
        (of_workflow(links, &runs))
    };
    let heading = Heading::new(&areas::WORKFLOWS, file).below(links.to(&["workflows"]), "Workflows");
    Ok(document(links, &heading, &content))
}

fn ended_early(error: &tokio::task::JoinError) -> PageError {
    PageError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the compiler ended early: {error}"))
        .help("`trainyard check` shows more")
}

fn started_note(links: &Links, run: &str) -> Markup {
    html! {
        p role="status" {
            "Run " a .mono href=(links.run(run)) { (text::cut(run, 80).0) } " was requested; it begins within seconds."
        }
    }
}

/// Renders the plan and the button that starts a run, or the mistakes.
fn plan(page: &PageRequest, file: &str, preview: &WorkflowPreview, values: &[(String, String)]) -> Markup {
    html! {
        @match &preview.plan {
            Err(mistakes) => {
                p { "There is no plan yet: give the missing values, or correct the file." }
                pre .failure { (text::cut(mistakes, text::MAX_CHARS).0) }
            }
            Ok(plan) => {
                (scrolling("Stages", &stages(plan)))
                @if plan.stages.len() > SHOWN { p .muted { (plan.stages.len() - SHOWN) " more stages" } }
                p { "Stage instances: " (text::count(plan.instances as u64)) "." }
                @if page.user.may_change {
                    form .action method="post" action=(page.links.to(&["workflows", file, "runs"])) {
                        (forms::key(&page.user))
                        (fields::hidden(values))
                        button type="submit" { "Start a run of this plan" }
                    }
                }
            }
        }
    }
}

fn stages(plan: &PlanSummary) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th .n { "Layer" } th { "Stage" } th { "Kind" } th .n { "Instances" } th { "After" }
                    th { "Description" }
                }
            }
            tbody {
                @for stage in plan.stages.iter().take(SHOWN) {
                    tr {
                        td .n { (stage.layer + 1) }
                        td { (text::visible(&stage.name)) }
                        td { code { (text::visible(&stage.kind)) } }
                        td .n { @if stage.is_late { "by a list" } @else { (stage.instances) } }
                        td { (text::cut(&stage.after.join(", "), 300).0) }
                        td .wide { (text::cut(&stage.description, 300).0) }
                    }
                }
            }
        }
    }
}

/// Renders the runs that the daemon started for the workflow.
fn of_workflow(links: &Links, runs: &[RequestedRun]) -> Markup {
    html! {
        @if !runs.is_empty() {
            h2 { "Runs that the daemon started" }
            ul {
                @for run in runs.iter().take(SHOWN) {
                    li {
                        a .mono href=(links.run(&run.run.0)) { (text::visible(&run.run.0)) } " "
                        @match &run.closed {
                            None => "waiting or running",
                            Some(closed) => {
                                @if let Some(outcome) = closed.outcome { (outcomes::mark(outcome)) }
                                @if let Some(why) = &closed.why { ": " (text::cut(why, 2_000).0) }
                            }
                        }
                    }
                }
            }
        }
    }
}
