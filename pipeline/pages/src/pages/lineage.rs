//! Lineage of an artifact or one of its rows: what it was made from, and what was made from a row.

use crate::error::{PageError, PageResult};
use crate::layout::document;
use crate::links::{Links, query};
use crate::pages::artifact_parts::{Tab, tabs};
use crate::pages::rollout_parts::place::{ArtifactPlace, of_request};
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text::{count, cut, visible};
use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use trainyard_views::lineage::{Ancestor, Lineage};
use trainyard_views::row_lineage::{CountedInput, DescendantTable, Descendants, LineageNode, Relation};
use trainyard_views::{find, lineage, row_lineage, table_rows};

/// Sources of one node that are shown at once.
const BRANCHES: usize = 20;
/// Characters of an id.
const ID: usize = 200;

/// State of the page.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct LineageParams {
    /// Number of a row.
    row: Option<String>,
    /// Id of a row.
    id: Option<String>,
    /// Not empty to walk to what was made from the row.
    forward: Option<String>,
}

/// Shows the lineage of the artifact, or of its row.
pub async fn show(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path((digest, output)): Path<(String, String)>,
    Query(params): Query<LineageParams>,
) -> PageResult {
    let place = ArtifactPlace::find(&app, &digest, &output).await?;
    let links = &page.links;
    let row = row(&app, &place, &params).await?;
    let is_forward = params.forward.as_deref().is_some_and(|forward| !forward.is_empty());
    let (title, tree) = match row {
        Some(row) if is_forward => {
            (format!("Made from row {row} of {}", place.name), descendants(&app, links, &place, row).await?)
        }
        Some(row) => (format!("Lineage of row {row} of {}", place.name), sources(&app, links, &place, row).await?),
        None => {
            let found = lineage::of_stage(&app.store, place.found.manifest.clone()).await?;
            (format!("Lineage of {}", place.name), stages(links, &found))
        }
    };
    let content = html! {
        (tabs(links, &place, Tab::Lineage))
        @if place.found.output().table.is_some() { (form(row, is_forward)) }
        @if let Some(row) = row { (directions(links, &place, row, is_forward)) }
        (tree)
    };
    Ok(document(links, &place.heading(links, title), &content))
}

async fn row(app: &PageState, place: &ArtifactPlace, params: &LineageParams) -> Result<Option<u64>, PageError> {
    let given = |text: &Option<String>| text.as_deref().map(str::trim).filter(|t| !t.is_empty()).map(str::to_string);
    if let Some(id) = given(&params.id) {
        let found = table_rows::row_with_id(&app.store, &place.name, &place.found, &id).await;
        return Ok(Some(found.map_err(of_request)?));
    }
    let Some(row) = given(&params.row) else { return Ok(None) };
    let wrong = |_| crate::pages::rollout_parts::place::wrong_parameter("row", "it is not a number from 0 on");
    row.parse().map(Some).map_err(wrong)
}

async fn sources(app: &PageState, links: &Links, place: &ArtifactPlace, row: u64) -> Result<Markup, PageError> {
    let found = resolved(place);
    let tree = row_lineage::sources(&app.store, &place.name, found, index(row)).await.map_err(of_request)?;
    Ok(html! { ul .lineage { (node(links, &tree)) } })
}

async fn descendants(app: &PageState, links: &Links, place: &ArtifactPlace, row: u64) -> Result<Markup, PageError> {
    let name = format!("{}/{}", place.digest, place.output());
    let (found, view, stage) = find::artifact_in_run(&app.store, &name).await?;
    let made = row_lineage::descendants(&app.store, &place.name, found, (view, stage), index(row));
    Ok(made_from(links, &made.await.map_err(of_request)?))
}

fn resolved(place: &ArtifactPlace) -> find::ResolvedOutput {
    find::ResolvedOutput { manifest: place.found.manifest.clone(), port: place.found.port.clone() }
}

fn index(row: u64) -> usize {
    usize::try_from(row).unwrap_or(usize::MAX)
}

fn form(row: Option<u64>, is_forward: bool) -> Markup {
    html! {
        form .filters method="get" {
            label { "Row" input type="number" name="row" min="0" value=[row] inputmode="numeric"; }
            label { "or the id of a row" input type="search" name="id"; }
            @if is_forward { input type="hidden" name="forward" value="1"; }
            button type="submit" { "Show" }
        }
    }
}

fn directions(links: &Links, place: &ArtifactPlace, row: u64, is_forward: bool) -> Markup {
    let (here, number) = (place.within(links, &["lineage"]), row.to_string());
    let back = query(&[("row", &number)]);
    let forward = query(&[("row", &number), ("forward", "1")]);
    html! {
        nav .pages aria-label="Direction" {
            a href=(format!("{here}{back}")) aria-current=[(!is_forward).then_some("page")] { "What it was made from" }
            a href=(format!("{here}{forward}")) aria-current=[is_forward.then_some("page")] { "What was made from it" }
            a href=(here) { "Stages of the artifact" }
            a href=(place.row(links, row)) { "The row" }
        }
    }
}

/// Returns the words between a node and the one that it is a source of.
fn relation(relation: Relation) -> &'static str {
    match relation {
        Relation::Row => "",
        Relation::Kept => "kept from ",
        Relation::Parent => "made from ",
        Relation::Problem => "answers ",
        Relation::Rollout => "judges ",
        Relation::Fork => "forked from ",
        Relation::Model => "model ",
        Relation::Source => "read from ",
    }
}

fn node(links: &Links, of: &LineageNode) -> Markup {
    let hidden = of.sources.len().saturating_sub(BRANCHES);
    html! {
        li {
            (relation(of.relation))
            (place_of(links, of))
            @if let Some(text) = &of.text { span .excerpt { ": " (visible(text)) } }
            @if let Some(note) = &of.note { span .muted { " (" (visible(note)) ")" } }
            @if !of.inputs.is_empty() || !of.sources.is_empty() {
                ul {
                    @for input in of.inputs.iter().take(BRANCHES) { li { (counted(links, input)) } }
                    @if of.inputs.len() > BRANCHES { li .muted { (of.inputs.len() - BRANCHES) " more inputs" } }
                    @for source in of.sources.iter().take(BRANCHES) { (node(links, source)) }
                    @if hidden > 0 {
                        li {
                            details {
                                summary { (hidden) " more sources" }
                                ul { @for source in of.sources.iter().skip(BRANCHES) { (node(links, source)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Names the row, model or file of a node, with a link.
fn place_of(links: &Links, of: &LineageNode) -> Markup {
    let id = of.id.as_deref().map(|id| cut(id, ID).0);
    let (Some(artifact), Some(digest)) = (&of.artifact, &of.stage_digest) else {
        return html! { @if let Some(id) = id { span .mono { (id) } } };
    };
    let address = match of.row {
        Some(row) => links.row(digest, output(artifact), row),
        None => links.artifact(digest, output(artifact)),
    };
    html! {
        a href=(address) {
            (visible(artifact))
            @if let Some(row) = of.row { " row " (row) }
        }
        @if let Some(id) = id { ", id " span .mono { (id) } }
        @if let Some(kind) = of.stage_kind.as_ref().filter(|_| of.relation == Relation::Model) {
            ", made by " (visible(kind))
        }
    }
}

fn counted(links: &Links, input: &CountedInput) -> Markup {
    html! {
        (visible(&input.input)) ": "
        a href=(links.artifact(&input.stage_digest, output(&input.artifact))) { (visible(&input.artifact)) }
        @if let Some(rows) = input.rows { ", " (count(rows)) " rows" }
    }
}

/// Returns the output of an artifact's name.
fn output(artifact: &str) -> &str {
    artifact.rsplit('/').next().unwrap_or_default()
}

fn made_from(links: &Links, made: &Descendants) -> Markup {
    let rows = |of: &DescendantTable| of.rows.unwrap_or(0).saturating_sub(of.first.len() as u64);
    html! {
        @if made.artifacts.is_empty() {
            (crate::layout::empty("No artifact of this run has rows that name this one."))
        }
        ul .lineage {
            @for of in &made.artifacts {
                li {
                    a href=(links.artifact(&of.stage_digest, output(&of.artifact))) { (visible(&of.artifact)) }
                    ", " (visible(&of.kind)) " of " (visible(&of.stage_kind))
                    @if let Some(rows) = of.rows { ": " (count(rows)) @if rows == 1 { " row" } @else { " rows" } }
                    @if !of.first.is_empty() {
                        ul {
                            @for row in &of.first {
                                li {
                                    a href=(links.row(&of.stage_digest, output(&of.artifact), row.row)) {
                                        "row " (row.row)
                                    }
                                    @if let Some(id) = &row.id { ", id " span .mono { (cut(id, ID).0) } }
                                }
                            }
                            @if rows(of) > 0 { li .muted { (count(rows(of))) " more" } }
                        }
                    }
                }
            }
        }
    }
}

/// Draws the stages of an artifact, each once with its inputs.
fn stages(links: &Links, found: &Lineage) -> Markup {
    let known: BTreeMap<&str, &Ancestor> =
        found.stages.iter().map(|stage| (stage.stage_digest.as_str(), stage)).collect();
    let mut drawn = BTreeSet::new();
    html! {
        ul .lineage {
            @if let Some(first) = found.stages.first() { (stage(links, first, "", &known, &mut drawn)) }
        }
        @if found.truncated { p .muted { "There are more stages: the first " (found.stages.len()) " are shown." } }
    }
}

fn stage<'a>(
    links: &Links,
    of: &'a Ancestor,
    port: &str,
    known: &BTreeMap<&'a str, &'a Ancestor>,
    drawn: &mut BTreeSet<&'a str>,
) -> Markup {
    let is_first = drawn.insert(&of.stage_digest);
    let hidden = of.inputs.len().saturating_sub(BRANCHES);
    html! {
        li {
            @match (&of.run, &of.stage, port) {
                (Some(run), Some(stage), "") => a href=(links.stage(&run.0, &stage.0)) {
                    (visible(&run.0)) "/" (visible(&stage.0))
                },
                (Some(run), Some(stage), port) => a href=(links.artifact(&of.stage_digest, port)) {
                    (visible(&run.0)) "/" (visible(&stage.0)) "/" (visible(port))
                },
                _ => span { code { (short(&of.stage_digest)) } " (no longer in the store)" },
            }
            @if let Some(kind) = &of.kind { ", " (visible(kind)) }
            @if !is_first && !of.inputs.is_empty() { span .muted { " (shown above)" } }
            @if is_first && !of.inputs.is_empty() {
                ul {
                    @for input in of.inputs.iter().take(BRANCHES) {
                        @if let Some(below) = known.get(input.stage_digest.as_str()) {
                            (stage(links, below, &input.output, known, drawn))
                        } @else {
                            li {
                                a href=(links.artifact(&input.stage_digest, &input.output)) {
                                    (short(&input.stage_digest)) "/" (visible(&input.output))
                                }
                            }
                        }
                    }
                    @if hidden > 0 { li .muted { (hidden) " more inputs" } }
                }
            }
        }
    }
}

fn short(digest: &str) -> std::borrow::Cow<'_, str> {
    visible(digest.get(..12).unwrap_or(digest))
}

#[cfg(test)]
mod tests;
