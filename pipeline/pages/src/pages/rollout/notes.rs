//! Notes about a row.

use super::page::{RowPage, row_number};
use crate::access::{FORM_KEY, check_form};
use crate::error::PageError;
use crate::pages::rollout_parts::place::{ArtifactPlace, of_request};
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text::visible;
use axum::Form;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;
use trainyard_views::annotations::{self, NoteRow};
use trainyard_views::rollouts;

/// Maximum characters of a note in the form; the view counts bytes.
const MAX_CHARS: u32 = 4_096;

/// Notes that are shown: the newest.
const NOTES: usize = 50;

/// Form of a note.
#[derive(Debug, Clone, Deserialize)]
pub struct NoteForm {
    /// Proof that a page of this server contained the form.
    form_key: String,
    /// Text of the note.
    text: String,
}

/// Shows the notes about a row, and the form of a new one for those who may add it.
pub fn section(page: &RowPage, notes: &[NoteRow]) -> Markup {
    let user = &page.request.user;
    let earlier = notes.len().saturating_sub(NOTES);
    html! {
        h2 #notes { "Notes" }
        @if notes.is_empty() { p .empty { "No notes about this row." } }
        @if earlier > 0 {
            p .muted { (earlier) " earlier notes; `trainyard artifacts notes` lists them" }
        }
        ul .notes {
            @for note in &notes[earlier..] {
                li {
                    p { (visible(&note.text)) }
                    p .muted {
                        @if let Some(by) = &note.by { (visible(by)) ", " }
                        time datetime=(note.at) { (visible(&note.at)) }
                    }
                }
            }
        }
        @if user.may_change {
            form .note method="post" action=(page.place.row(&page.request.links, page.row)) {
                input type="hidden" name=(FORM_KEY) value=(user.form_key);
                label { "New note" textarea name="text" rows="3" maxlength=(MAX_CHARS) required {} }
                button type="submit" { "Add note" }
            }
        }
    }
}

/// Adds a note, and leads back to the row. Errors: 403 (the form of another session), 400 (no text, too long), 404 (no
/// such row).
pub async fn add_note(
    State(app): State<Arc<PageState>>,
    request: PageRequest,
    Path((digest, output, row)): Path<(String, String, String)>,
    Form(form): Form<NoteForm>,
) -> Result<Response, PageError> {
    check_form(&request.user, &form.form_key)?;
    // Forms send line feeds as CR LF.
    let text = form.text.replace("\r\n", "\n");
    annotations::check_note(&text).map_err(of_request)?;
    let place = ArtifactPlace::find(&app, &digest, &output).await?;
    let row = row_number(&row)?;
    rollouts::record(&app.store, &place.name, &place.found, row).await?;
    let output = &place.found.output().digest;
    app.store.add_note(output, Some(row), &text, Some(&request.user.name)).await?;
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(address) = HeaderValue::from_str(&format!("./{row}#notes")) {
        response.headers_mut().insert(header::LOCATION, address);
    }
    Ok(response)
}
