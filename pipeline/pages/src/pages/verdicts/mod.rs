//! Verdicts of a filter: how many rows each rule judged, edited and rejected, examples, and near-duplicates side by
//! side.

mod flow;
mod pairs;
#[cfg(test)]
mod tests;

use crate::error::PageResult;
use crate::layout::{document, scrolling};
use crate::links::{Links, query};
use crate::pages::artifact_parts::{Tab, tabs};
use crate::pages::rollout_parts::place::{ArtifactPlace, of_request};
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text::{count, cut, visible};
use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;
use trainyard_api::filter_tables::{KEPT, NEAR_DUPLICATE, REJECTED, REPORT};
use trainyard_views::filter_flow::{self, FilterFlow, RuleFlow};
use trainyard_views::near_duplicates::near_duplicates;

/// Characters of an id or a reason.
const TEXT: usize = 300;

/// State of the page.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct VerdictParams {
    /// Rejected row from which near-duplicates are shown.
    from: Option<u64>,
}

/// Shows the rules of the filter that made an artifact.
pub async fn show(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path((digest, output)): Path<(String, String)>,
    Query(params): Query<VerdictParams>,
) -> PageResult {
    let place = ArtifactPlace::find(&app, &digest, &output).await?;
    let found = filter_flow::show(&app.store, &place.found).await.map_err(of_request)?;
    let has_pairs = found.rules.iter().flat_map(|rule| &rule.reasons).any(|(reason, _)| reason == NEAR_DUPLICATE);
    let pairs = match has_pairs && place.found.manifest.outputs.contains_key(REJECTED) {
        true => Some(near_duplicates(&app.store, &place.found, params.from.unwrap_or(0)).await?),
        false => None,
    };
    let links = &page.links;
    let content = html! {
        (tabs(links, &place, Tab::Verdicts))
        (summary(links, &place, &found))
        h2 { "Rows through the rules" }
        (flow::chart(&found))
        (table(&found))
        h2 { "Examples" }
        @for rule in &found.rules { (examples(links, &place, rule)) }
        @if found.rules.iter().all(|rule| rule.examples.is_empty()) { p .empty { "No rule rejected a row." } }
        @if let Some(pairs) = &pairs { (pairs::section(links, &place, pairs, params.from.unwrap_or(0))) }
    };
    let made = &place.found.manifest.provenance;
    Ok(document(links, &place.heading(links, format!("Verdicts of {}/{}", made.run, made.stage)), &content))
}

fn summary(links: &Links, place: &ArtifactPlace, found: &FilterFlow) -> Markup {
    let outputs = &place.found.manifest.outputs;
    html! {
        p {
            (count(found.kept)) " of " (count(found.rows)) " rows were kept."
            @if found.rejected_before > 0 {
                " An earlier stage had rejected " (count(found.rejected_before)) " of them."
            }
            @if found.unreadable > 0 { " " (count(found.unreadable)) " rows could not be read." }
        }
        p {
            @for port in [KEPT, REJECTED, REPORT].into_iter().filter(|port| outputs.contains_key(*port)) {
                @let is_table = outputs[port].table.is_some();
                @if is_table { a href=(links.within(&place.digest, port, &["rows"])) { "Rows of " (port) } }
                @else { a href=(links.artifact(&place.digest, port)) { "The report" } }
                " "
            }
        }
    }
}

/// Shows the numbers of the chart.
fn table(found: &FilterFlow) -> Markup {
    let edits = found.rules.iter().any(|rule| rule.edited.is_some());
    scrolling(
        "Rules, in order",
        &html! {
            table {
                thead {
                    tr {
                        th { "Rule" } th .n { "Judged" } th .n { "Kept" } th .n { "Dropped" }
                        @if edits { th .n { "Edited" } }
                        th { "Reasons" }
                    }
                }
                tbody {
                    @for rule in &found.rules {
                        tr {
                            th scope="row" { (visible(&rule.rule)) }
                            td .n { (count(rule.judged)) }
                            td .n { (count(rule.kept())) }
                            td .n { (count(rule.rejected)) }
                            @if edits { td .n { @if let Some(edited) = rule.edited { (count(edited)) } } }
                            td .wide { (reasons(rule)) }
                        }
                    }
                }
            }
        },
    )
}

fn reasons(rule: &RuleFlow) -> Markup {
    html! {
        @for (at, (reason, rows)) in rule.reasons.iter().enumerate() {
            @if at > 0 { ", " }
            (cut(reason, TEXT).0) " " (count(*rows))
        }
    }
}

fn examples(links: &Links, place: &ArtifactPlace, rule: &RuleFlow) -> Markup {
    let address = |id: &str| format!("{}{}", links.within(&place.digest, REJECTED, &["rows"]), query(&[("id", id)]));
    html! {
        @if !rule.examples.is_empty() {
            h3 { (visible(&rule.rule)) ", first rows of each reason" }
            (scrolling(&format!("Examples of {}", rule.rule), &html! {
                table {
                    thead { tr { th { "Reason" } th { "Row" } th { "Detail" } } }
                    tbody {
                        @for example in &rule.examples {
                            tr {
                                td { (visible(&example.reason)) }
                                td .wide { a .mono href=(address(&example.row)) { (cut(&example.row, TEXT).0) } }
                                td .wide { (cut(&example.detail, TEXT).0) }
                            }
                        }
                    }
                }
            }))
        }
    }
}
