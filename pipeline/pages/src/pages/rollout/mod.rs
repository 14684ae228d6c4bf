//! One row of an artifact: a rollout turn by turn or token by token, another row as names and values.

mod conversation;
mod matches;
mod message;
mod navigation;
mod notes;
mod outcome;
mod page;
mod paging;
mod raw;
mod record;
#[cfg(test)]
mod tests;
mod tokens;

pub use notes::add_note;
pub use raw::raw;

use self::page::{RowPage, row_number};
use crate::error::{PageError, PageResult};
use crate::layout::document;
use crate::pages::rollout_parts::place::{ArtifactPlace, keys};
use crate::request::PageRequest;
use crate::state::PageState;
use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;
use trainyard_core::ArtifactKind;
use trainyard_views::annotations::{self, NoteRow};
use trainyard_views::rollouts;

/// State of the page.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct RowParams {
    /// First message, token or match of the page.
    from: Option<usize>,
    /// Text whose messages are listed.
    find: Option<String>,
    /// Value by which tokens are colored.
    tokens: Option<String>,
    /// `table` for tokens as a table.
    r#as: Option<String>,
}

/// Shows a row.
pub async fn show(
    State(app): State<Arc<PageState>>,
    request: PageRequest,
    Path((digest, output, row)): Path<(String, String, String)>,
    Query(params): Query<RowParams>,
) -> PageResult {
    let place = ArtifactPlace::find(&app, &digest, &output).await?;
    let page = RowPage { row: row_number(&row)?, place, request };
    let notes = annotations::notes_of(&app.store, &page.place.found.output().digest).await?;
    let notes: Vec<NoteRow> = notes.into_iter().filter(|note| note.row == Some(page.row)).collect();
    let content = match page.place.found.output().kind {
        ArtifactKind::Trajectories => rollout(&app, &page, &params).await?,
        _ => {
            let found = rollouts::record(&app.store, &page.place.name, &page.place.found, page.row).await?;
            html! { (navigation::rows(&page, found.rows)) (record::cells(&found)) }
        }
    };
    let links = &page.request.links;
    let mut heading = page.place.heading(links, format!("Row {}", page.row));
    if page.place.found.output().kind == ArtifactKind::Trajectories {
        heading = heading.below(page.place.rollouts(links), "rollouts");
    }
    let content = html! { (content) (notes::section(&page, &notes)) (keys("next and previous row")) };
    Ok(document(links, &heading, &content))
}

async fn rollout(app: &PageState, page: &RowPage, params: &RowParams) -> Result<Markup, PageError> {
    let found = rollouts::detail(&app.store, &page.place.name, &page.place.found, page.row).await?;
    let from = params.from.unwrap_or(0);
    let above = html! {
        (navigation::rows(page, found.rows))
        (navigation::search(page))
        (outcome::section(page, &found))
        (navigation::views(page, params.tokens.as_deref(), !found.rollout.loss_mask.is_empty()))
    };
    let body = match (&params.tokens, params.find.as_deref().filter(|text| !text.is_empty())) {
        (Some(value), _) => tokens::section(app, page, (value, params.r#as.as_deref() == Some("table")), from).await?,
        (None, Some(text)) => matches::section(page, found, text, from).await?,
        (None, None) => conversation::section(page, &found, from),
    };
    Ok(html! { (above) (body) })
}
