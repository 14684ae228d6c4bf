//! List of runs, newest first, searched by workflow, status, tag and text of parameters.

use crate::areas;
use crate::error::PageResult;
use crate::layout::{Heading, document, empty, scrolling, status};
use crate::links::{Links, query};
use crate::request::{PageRequest, given};
use crate::state::PageState;
use crate::text;
use axum::extract::{Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;
use trainyard_views::run_search::{self, FoundRun, FoundRuns, RunSearch};
use trainyard_views::runs::RunRow;

/// Runs on one page.
const PAGE: usize = 50;
/// Statuses of runs.
const STATUSES: [&str; 6] = ["running", "succeeded", "failed", "cancelled", "unfinished", "damaged"];
/// Name of the form that compares two runs of the list.
const COMPARE: &str = "compare";

/// Selection of runs.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct RunFilter {
    /// Only runs before this one.
    before: Option<String>,
    /// Only runs with this tag.
    tag: Option<String>,
    /// Only runs with this text in the name of the workflow.
    workflow: Option<String>,
    /// Only runs with this status.
    status: Option<String>,
    /// Only runs with this text in a parameter.
    text: Option<String>,
}

/// Shows a page of the list.
pub async fn list(State(app): State<Arc<PageState>>, page: PageRequest, Query(filter): Query<RunFilter>) -> PageResult {
    let selected = RunSearch {
        workflow: given(filter.workflow),
        status: given(filter.status),
        tag: given(filter.tag),
        text: given(filter.text),
        before: given(filter.before),
        limit: PAGE,
    };
    let found = run_search::search(&app.store, app.clock.as_ref(), &selected).await?;
    Ok(document(&page.links, &Heading::new(&areas::RUNS, "Runs"), &content(&page.links, &found, &selected)))
}

fn content(links: &Links, found: &FoundRuns, selected: &RunSearch) -> Markup {
    html! {
        (filters(selected))
        @if found.runs.is_empty() {
            (empty(match (selected.has_conditions(), &found.next) {
                (false, _) => "The store has no runs yet.",
                (true, None) => "No run fits this search.",
                (true, Some(_)) => "No run of this page fits this search; older runs may.",
            }))
        } @else {
            (scrolling("Runs", &table(links, &found.runs)))
            @if found.runs.len() > 1 {
                form #(COMPARE) .filters method="get" action=(links.to(&["diff"])) {
                    button type="submit" { "Compare runs A and B" }
                }
            }
        }
        @if let Some(next) = &found.next {
            nav .pages aria-label="More runs" {
                a rel="next" href=(format!("{}{}", links.to(&[]), query(&parameters(selected, next)))) { "Older runs" }
                @if selected.has_conditions() {
                    span .muted { (text::count(found.examined as u64)) " runs were examined" }
                }
            }
        }
    }
}

fn parameters<'a>(selected: &'a RunSearch, before: &'a str) -> Vec<(&'a str, &'a str)> {
    let RunSearch { workflow, status, tag, text, .. } = selected;
    let all = [("workflow", workflow), ("status", status), ("tag", tag), ("text", text)];
    all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).chain([("before", before)]).collect()
}

fn filters(selected: &RunSearch) -> Markup {
    html! {
        form .filters method="get" {
            label { "Workflow" input type="search" name="workflow" value=[selected.workflow.as_deref()]; }
            label {
                "Status"
                select name="status" {
                    option value="" { "all" }
                    @for status in STATUSES {
                        option value=(status) selected[selected.status.as_deref() == Some(status)] { (status) }
                    }
                }
            }
            label { "Tag" input type="search" name="tag" value=[selected.tag.as_deref()]; }
            label {
                "Parameters"
                input type="search" name="text" placeholder="lr=0.003" value=[selected.text.as_deref()];
            }
            button type="submit" { "Search" }
        }
    }
}

fn table(links: &Links, runs: &[FoundRun]) -> Markup {
    html! {
        table {
            thead {
                tr {
                    @if runs.len() > 1 { th { "A" } th { "B" } }
                    th { "Run" } th { "Status" } th { "Workflow" } th { "Created" } th .n { "Time" } th { "Stages" }
                    th { "Tags" }
                }
            }
            tbody {
                @for (number, FoundRun { row: run, params }) in runs.iter().enumerate() {
                    tr {
                        @if runs.len() > 1 {
                            td { (choice("a", &run.run.0, number == 1)) }
                            td { (choice("b", &run.run.0, number == 0)) }
                        }
                        td { a .mono href=(links.run(&run.run.0)) { (text::visible(&run.run.0)) } }
                        td {
                            (status(&run.status))
                            @if let Some(why) = &run.why { br; span .failure { (text::cut(why, 300).0) } }
                        }
                        td {
                            @if let Some(name) = &run.workflow { (text::visible(name)) }
                            @for param in params { br; code { (text::cut(param, 80).0) } }
                        }
                        td { @if let Some(created) = &run.created { time datetime=(created) { (short(created)) } } }
                        td .n { @if let Some(seconds) = run.seconds { (text::seconds(seconds)) } }
                        td { (stages(run)) }
                        td { (tags(links, run)) }
                    }
                }
            }
        }
    }
}

/// Returns the choice of a run as one side of a comparison.
fn choice(side: &str, run: &str, is_chosen: bool) -> Markup {
    let label = format!("{}: run {run}", side.to_uppercase());
    html! { input type="radio" form=(COMPARE) name=(side) value=(run) aria-label=(label) checked[is_chosen]; }
}

fn tags(links: &Links, run: &RunRow) -> Markup {
    html! {
        @for tag in &run.tags {
            a .tag href=(format!("{}{}", links.to(&[]), query(&[("tag", tag)]))) { (text::visible(tag)) } " "
        }
        a href=(links.to(&["runs", &run.run.0, "tags"])) aria-label=(format!("edit tags of run {}", run.run)) { "edit" }
    }
}

fn stages(run: &RunRow) -> String {
    let counts: Vec<String> = run.stages.iter().map(|(status, count)| format!("{count} {status}")).collect();
    counts.join(", ")
}

/// Shortens a time to minutes, as in `2026-11-28 13:07`.
fn short(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}

#[cfg(test)]
mod tests {
    use crate::pages::testing::{get, pages, write_run};
    use serde_json::json;
    use trainyard_core::RunId;
    use trainyard_store::{Store, StoreOptions};

    #[tokio::test]
    async fn runs_are_searched_and_chosen_for_a_comparison() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        write_run(&store, "20261121-000001-a", "gsm8k", json!({"lr": 0.003}), &[]).await;
        write_run(&store, "20261121-000002-b", "<script>\u{202e}", json!({"note": "<b>x"}), &[]).await;
        store.set_tag(&RunId("20261121-000001-a".into()), "best", true, None).await.unwrap();
        let pages = pages(&store, false);
        let (_, html) = get(&pages, "/").await;
        assert!(html.contains("&lt;script&gt;\\u{202e}") && !html.contains("<script>\u{202e}"), "{html}");
        assert!(html.contains("aria-label=\"A: run 20261121-000001-a\" checked"), "the older run is A: {html}");
        assert!(html.contains("href=\"./?tag=best\"") && html.contains("href=\"runs/20261121-000001-a/tags\""));
        let (_, html) = get(&pages, "/?workflow=GSM&status=succeeded&tag=&text=lr%3D0.00").await;
        assert!(html.contains("20261121-000001-a") && !html.contains("20261121-000002-b"), "{html}");
        assert!(html.contains("<code>lr=0.003</code>") && html.contains("value=\"GSM\""), "{html}");
        let (_, html) = get(&pages, "/?text=%3Cb%3E").await;
        assert!(html.contains("note=&lt;b&gt;x") && !html.contains("<b>x"), "{html}");
        assert!(get(&pages, "/?status=failed").await.1.contains("No run fits this search."));
    }
}
