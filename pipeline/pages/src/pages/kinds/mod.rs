//! Stage kinds and parts: ports, options, metrics, documentation, examples.

mod content;
#[cfg(test)]
mod tests;

use super::recipes::{CatalogueSearch, is_found, search_form};
use crate::areas;
use crate::catalogue::{PageCatalogue, PartEntry};
use crate::error::{PageError, PageResult};
use crate::layout::{Heading, document, empty, scrolling};
use crate::request::{PageRequest, given};
use crate::state::PageState;
use axum::extract::{Path, Query, State};
use maud::html;
use std::sync::Arc;
use trainyard_core::KindInfo;

/// Lists stage kinds and parts.
pub async fn list(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Query(search): Query<CatalogueSearch>,
) -> PageResult {
    app.make_catalogue().await?;
    let text = given(search.q);
    let PageCatalogue { kinds, parts, .. } = &*app.catalogue;
    let kinds: Vec<&KindInfo> =
        kinds.iter().filter(|kind| is_found(text.as_deref(), &[kind.name, kind.summary, kind.doc])).collect();
    let parts: Vec<&PartEntry> =
        parts.iter().filter(|part| is_found(text.as_deref(), &[&part.name, &part.summary, &part.doc])).collect();
    let content = html! {
        (search_form("Name or documentation", text.as_deref()))
        @if kinds.is_empty() && parts.is_empty() { (empty("No stage kind or part fits this search.")) }
        @if !kinds.is_empty() {
            h2 { "Stage kinds" }
            @let rows: Vec<(&str, &str)> = kinds.iter().map(|kind| (kind.name, kind.summary)).collect();
            (scrolling("Stage kinds", &content::table(&page.links, &rows)))
        }
        @if !parts.is_empty() {
            h2 { "Parts" }
            @let rows = parts.iter().map(|part| (part.name.as_str(), part.summary.as_str())).collect::<Vec<_>>();
            (scrolling("Parts", &content::table(&page.links, &rows)))
        }
    };
    Ok(document(&page.links, &Heading::new(&areas::STAGES, "Stages and parts"), &content))
}

/// Shows the page of a stage kind or part, by its name.
pub async fn show(State(app): State<Arc<PageState>>, page: PageRequest, Path(name): Path<String>) -> PageResult {
    app.make_catalogue().await?;
    let (links, catalogue) = (&page.links, &app.catalogue);
    let kind = catalogue.kinds.iter().find(|kind| kind.name == name);
    let content = match (kind, catalogue.parts.iter().find(|part| part.name == name)) {
        (Some(kind), _) => content::kind(links, kind, &catalogue.parts),
        (None, Some(part)) => content::part(part),
        (None, None) => {
            let error = PageError::not_found(format!("there is no stage kind or part `{name}`"));
            return Err(error.help("the page `stages` lists all of them"));
        }
    };
    let heading = Heading::new(&areas::STAGES, name).below(links.to(&["stages"]), "Stages and parts");
    Ok(document(links, &heading, &content))
}
