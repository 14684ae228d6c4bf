//! List of the artifacts of a run, in the order of its stages.

use crate::areas;
use crate::error::PageResult;
use crate::layout::{Heading, document, empty, scrolling};
use crate::links::{Links, query};
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text::{bytes, count, visible};
use axum::extract::{Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;
use trainyard_views::artifacts::{self, ArtifactList, ArtifactListQuery, ArtifactRow};
use trainyard_views::find::{self, LATEST};

/// Artifacts of a page.
const PAGE: usize = 100;
/// Kind of artifacts with a page of rollouts.
const TRAJECTORIES: &str = "trajectories";

/// Selection of artifacts.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ArtifactParams {
    /// Run: an id, the beginning of one, `latest`, `latest-success` or a tag.
    run: Option<String>,
    /// Index of the first artifact.
    from: Option<usize>,
}

/// Shows a page of the list.
pub async fn list(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Query(params): Query<ArtifactParams>,
) -> PageResult {
    let name = params.run.as_deref().map(str::trim).filter(|run| !run.is_empty());
    let heading = |title: String| Heading::new(&areas::ARTIFACTS, title);
    if name.is_none() && app.store.list_runs().await?.is_empty() {
        let content = empty("The store has no runs yet, so it has no artifacts.");
        return Ok(document(&page.links, &heading("Artifacts".to_string()), &content));
    }
    let run = find::run(&app.store, name.unwrap_or(LATEST)).await?;
    let selected = ArtifactListQuery { run: None, from: params.from, limit: Some(PAGE) };
    let found = artifacts::list(&app.store, &run, &selected).await?;
    let heading = heading(format!("Artifacts of {run}")).below(page.links.run(&run.0), run.0.as_str());
    Ok(document(&page.links, &heading, &content(&page.links, &found, name, params.from.unwrap_or(0))))
}

fn content(links: &Links, found: &ArtifactList, name: Option<&str>, from: usize) -> Markup {
    let address = |from: usize| {
        format!("{}{}", links.to(&["artifacts"]), query(&[("run", &found.run.0), ("from", &from.to_string())]))
    };
    html! {
        form .filters method="get" {
            label { "Run, tag or " code { "latest" } input type="search" name="run" value=[name]; }
            button type="submit" { "Show" }
        }
        @if found.artifacts.is_empty() {
            (empty("No stage of this run has published an artifact."))
        } @else {
            (scrolling("Artifacts", &table(links, &found.artifacts)))
        }
        @if from > 0 || found.next.is_some() {
            nav .pages aria-label="More artifacts" {
                @if from > 0 { a rel="prev" href=(address(from.saturating_sub(PAGE))) { "Artifacts before" } }
                @if let Some(next) = found.next { a rel="next" href=(address(next)) { "Artifacts after" } }
            }
        }
    }
}

fn table(links: &Links, rows: &[ArtifactRow]) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th { "Stage" } th { "Output" } th { "Kind" } th .n { "Rows" } th .n { "Size" } th { "Views" }
                }
            }
            tbody { @for row in rows { (artifact(links, row)) } }
        }
    }
}

fn artifact(links: &Links, row: &ArtifactRow) -> Markup {
    let digest = row.stage_digest.as_deref();
    let within = |digest: &str, part: &str| links.within(digest, &row.output, &[part]);
    html! {
        tr {
            td .wide { (visible(&row.stage.0)) }
            td {
                @match digest {
                    Some(digest) => a .mono href=(links.artifact(digest, &row.output)) { (visible(&row.output)) },
                    None => span .mono { (visible(&row.output)) },
                }
            }
            td { (visible(&row.about.kind)) }
            td .n { @if let Some(rows) = row.about.rows { (count(rows)) } }
            td .n { (bytes(row.about.bytes)) }
            td {
                @if let Some(digest) = digest {
                    @if row.about.rows.is_some() { a href=(within(digest, "rows")) { "rows" } " " }
                    @if row.about.kind == TRAJECTORIES {
                        a href=(links.rollouts(digest, &row.output)) { "rollouts" } " "
                    }
                    a href=(within(digest, "lineage")) { "lineage" }
                }
            }
        }
    }
}
