//! Comparison of two runs: parameters, stages with the reasons of their differences, results.

use super::changes::{self, MAX_ROWS, more};
use crate::areas;
use crate::error::{PageError, PageResult};
use crate::layout::{Heading, document, empty, scrolling, status};
use crate::links::Links;
use crate::request::{PageRequest, given};
use crate::state::PageState;
use crate::text::{seconds, visible};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Redirect;
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;
use trainyard_core::StageKey;
use trainyard_views::diff::{Reason, RunSide, RunsDiff, StageResult, diff_runs};
use trainyard_views::find;

/// Stages whose metrics are shown.
const MAX_RESULTS: usize = 50;

/// Names of the compared runs.
#[derive(Debug, Deserialize)]
pub struct Chosen {
    a: Option<String>,
    b: Option<String>,
}

/// Leads from the form of the list to the comparison.
pub async fn choose(page: PageRequest, Query(chosen): Query<Chosen>) -> Result<Redirect, PageError> {
    let (Some(a), Some(b)) = (given(chosen.a), given(chosen.b)) else {
        let error = PageError::new(StatusCode::BAD_REQUEST, "a comparison needs two runs");
        return Err(error.help("choose A and B in the list of runs, or add `?a=RUN&b=RUN` to the address"));
    };
    Ok(Redirect::to(&page.links.to(&["runs", &a, "diff", &b])))
}

/// Shows the comparison.
pub async fn show(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path((a, b)): Path<(String, String)>,
) -> PageResult {
    let (a, b) = (find::run(&app.store, &a).await?, find::run(&app.store, &b).await?);
    let diff = diff_runs(&app.store, app.clock.as_ref(), &a, &b).await?;
    let heading = Heading::new(&areas::RUNS, "Comparison of runs").below(page.links.to(&[]), "Runs");
    Ok(document(&page.links, &heading, &content(&page.links, &diff)))
}

fn content(links: &Links, diff: &RunsDiff) -> Markup {
    html! {
        dl .tiles { (side(links, "A", &diff.a)) (side(links, "B", &diff.b)) }
        p { a href=(links.to(&["runs", &diff.b.run.0, "diff", &diff.a.run.0])) { "Swap A and B" } }
        @if diff.is_same {
            (empty("Both names are the same run."))
        } @else {
            @if diff.params.is_empty() { h2 { "Parameters" } (empty("All parameters are equal.")) }
            (changes::keys("Parameters", &diff.params))
            (stages(links, diff))
            (results(links, diff))
        }
    }
}

fn side(links: &Links, name: &str, side: &RunSide) -> Markup {
    html! {
        div {
            dt { (name) ": " (visible(&side.workflow)) }
            dd {
                a .mono href=(links.run(&side.run.0)) { (visible(&side.run.0)) } " "
                (status(&side.status)) " after " (seconds(side.seconds))
            }
        }
    }
}

fn stages(links: &Links, diff: &RunsDiff) -> Markup {
    html! {
        h2 { "Stages that differ" }
        @if diff.changed.is_empty() { (empty("No stage of both runs differs.")) }
        @for stage in diff.changed.iter().take(MAX_ROWS) {
            section {
                h3 { a href=(links.stage(&diff.b.run.0, &stage.stage.0)) { (visible(&stage.stage.0)) } }
                @for why in &stage.reasons { (reason(why)) }
            }
        }
        (more(diff.changed.len(), MAX_ROWS))
        (list("Stages only in A", &diff.only_a))
        (list("Stages only in B", &diff.only_b))
        (list("Equal stages", &diff.equal))
    }
}

fn list(title: &str, stages: &[StageKey]) -> Markup {
    html! {
        @if !stages.is_empty() {
            details {
                summary { (title) ": " (stages.len()) }
                ul { @for stage in stages.iter().take(MAX_ROWS) { li .mono { (visible(&stage.0)) } } }
                (more(stages.len(), MAX_ROWS))
            }
        }
    }
}

fn reason(reason: &Reason) -> Markup {
    html! {
        @match reason {
            Reason::Unpublished { a, b } => p {
                "Not published by both: it is " (visible(a)) " in A, " (visible(b)) " in B."
            },
            Reason::NoManifest { stage_digest } => p {
                "The manifest of " code { (visible(stage_digest)) } " is no longer in the store."
            },
            Reason::Kind { a, b } => p {
                "Another kind: " code { (visible(a)) } " in A, " code { (visible(b)) } " in B."
            },
            Reason::Config { changes } => {
                p { "Other options:" }
                (scrolling("Options", &changes::key_table(changes)))
            },
            Reason::Input { input, stages } => p {
                "Other content of the input " code { (visible(input)) }
                @if !stages.is_empty() { ", made by " (names(stages)) } "."
            },
            Reason::KindVersion { a, b } => p { "Another version of the kind: " (a) " in A, " (b) " in B." },
            Reason::Generation { a, b } => p { "It was computed again: generation " (a) " in A, " (b) " in B." },
            Reason::NotInManifest => p {
                "Something that manifests do not have: content of a source, environment, declared outputs or salt."
            },
        }
    }
}

fn names(stages: &[StageKey]) -> String {
    let shown: Vec<String> = stages.iter().take(MAX_ROWS).map(|stage| visible(&stage.0).into_owned()).collect();
    shown.join(", ")
}

fn results(links: &Links, diff: &RunsDiff) -> Markup {
    let time = |time: Option<f64>| time.map_or_else(|| "–".to_string(), seconds);
    let differing: Vec<&StageResult> =
        diff.results.iter().filter(|row| !diff.equal.contains(&row.stage) && !row.metrics.is_empty()).collect();
    html! {
        h2 { "Results" }
        @if diff.results.is_empty() { (empty("The runs have no stage in common.")) } @else {
            (scrolling("Results", &html! {
                table {
                    thead { tr { th { "Stage" } th { "A" } th { "B" } th .n { "Time A" } th .n { "Time B" } } }
                    tbody {
                        @for row in diff.results.iter().take(MAX_ROWS) {
                            tr {
                                @let address = links.stage(&diff.b.run.0, &row.stage.0);
                                td { a .mono href=(address) { (visible(&row.stage.0)) } }
                                td { (status(&row.status_a)) }
                                td { (status(&row.status_b)) }
                                td .n { (time(row.seconds_a)) }
                                td .n { (time(row.seconds_b)) }
                            }
                        }
                    }
                }
            }))
            (more(diff.results.len(), MAX_ROWS))
        }
        @for row in differing.iter().take(MAX_RESULTS) {
            h3 { "Metrics of " (visible(&row.stage.0)) }
            (changes::metrics(&row.metrics))
        }
        (more(differing.len(), MAX_RESULTS))
    }
}

#[cfg(test)]
mod tests {
    use crate::pages::testing::{get, pages, published, write_run};
    use axum::http::StatusCode;
    use serde_json::json;
    use trainyard_store::{Store, StoreOptions};

    const A: &str = "20261121-000001-a";
    const B: &str = "20261121-000002-b";

    #[tokio::test]
    async fn parameters_stages_and_metrics_are_compared() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let hostile = "<script>alert(1)</script>\u{1b}[31m";
        let both = |x: f64| vec![published("sft", &json!({"x": 1.0})), published("rl", &json!({"x": x}))];
        write_run(&store, A, "w", json!({"lr": 0.1, "same": 1}), &both(0.5)).await;
        let mut later = both(0.75);
        later[1]["digest"] = json!(trainyard_core::Digest::of(b"other"));
        later.push(published("only", &json!({})));
        write_run(&store, B, "w", json!({"lr": hostile, "same": 1}), &later).await;
        let pages = pages(&store, false);
        let (status, html) = get(&pages, &format!("/runs/{A}/diff/{B}")).await;
        assert_eq!(status, StatusCode::OK, "{html}");
        assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;\\u{1b}[31m"), "{html}");
        assert!(!html.contains("<script>alert") && !html.contains('\u{1b}'));
        assert!(html.contains("<code>0.1</code>") && !html.contains(">same<"), "only differing parameters: {html}");
        assert!(html.contains("Metrics of rl") && html.contains("+0.25"), "{html}");
        assert!(html.contains("is no longer in the store"), "the manifests were never there: {html}");
        assert!(html.contains("Stages only in B: 1") && html.contains("Equal stages: 1"), "{html}");
        assert!(get(&pages, &format!("/runs/{A}/diff/{A}")).await.1.contains("Both names are the same run."));
    }

    #[tokio::test]
    async fn two_chosen_runs_lead_to_their_comparison() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let pages = pages(&store, false);
        assert_eq!(get(&pages, &format!("/diff?a={A}&b={B}")).await.0, StatusCode::SEE_OTHER);
        let (status, html) = get(&pages, "/diff?a=x").await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(html.contains("choose A and B"), "{html}");
        assert_eq!(get(&pages, "/runs/none/diff/other").await.0, StatusCode::NOT_FOUND);
    }
}
