//! Artifacts: the list of a run, and one artifact with its inputs, metrics, notes, files, and the content of a model or
//! a report.

mod facts;
mod files;
mod list;
mod measured;
mod model;
mod report;
#[cfg(test)]
mod tests;

pub use list::list;

use crate::error::PageResult;
use crate::layout::document;
use crate::pages::artifact_diff;
use crate::pages::artifact_parts::{Tab, mistake, tabs};
use crate::pages::rollout_parts::place::ArtifactPlace;
use crate::request::PageRequest;
use crate::state::PageState;
use axum::extract::{Path, Query, State};
use maud::html;
use serde::Deserialize;
use std::sync::Arc;
use trainyard_views::{annotations, artifacts, report as report_view};

/// State of the page.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct FileParams {
    /// Index of the first file.
    files: Option<usize>,
}

/// Shows an artifact.
pub async fn show(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path((digest, output)): Path<(String, String)>,
    Query(params): Query<FileParams>,
) -> PageResult {
    let place = ArtifactPlace::find(&app, &digest, &output).await?;
    let links = &page.links;
    let notes = annotations::notes_of(&app.store, &place.found.output().digest).await?;
    let report = report_view::show(&app.store, &place.found).await;
    let shown = artifacts::show(&app.store, &place.found).await?;
    let made = &place.found.manifest.provenance;
    let example = format!("latest/{}/{}", made.stage, place.output());
    let content = html! {
        (tabs(links, &place, Tab::Overview))
        (facts::tiles(links, &shown, &place.found.manifest))
        (facts::notes(links, &place, &notes))
        @match &report {
            Ok(Some(report)) => (report::section(report)),
            Ok(None) => {}
            Err(error) => (mistake(error)),
        }
        @if let Some(model) = &shown.model { (model::section(links, model)) }
        @if let Some(table) = &shown.table { (facts::columns(table)) }
        (facts::inputs(links, &shown))
        (facts::other_outputs(links, &place))
        (measured::section(&place.found.manifest))
        (facts::metadata(&place.found.output().metadata))
        (facts::config(&shown.config))
        (files::section(links, &place, params.files.unwrap_or(0)))
        (artifact_diff::form(links, &place.digest, place.output(), &example))
    };
    let heading = crate::layout::Heading::new(&crate::areas::ARTIFACTS, place.name.as_str())
        .below(links.run(&made.run.0), made.run.0.as_str())
        .below(links.stage(&made.run.0, &made.stage.0), made.stage.0.as_str());
    Ok(document(links, &heading, &content))
}
