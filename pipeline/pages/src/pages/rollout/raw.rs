//! Whole text of a message. The browser shows it as plain text in a sandbox.

use super::page::row_number;
use crate::error::PageError;
use crate::pages::rollout_parts::place::{ArtifactPlace, wrong_parameter};
use crate::state::PageState;
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use trainyard_views::rollouts::{MessagePart, message_text};

/// Policy of untrusted text: nothing is loaded or run, and the origin is another one.
const POLICY: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

/// Selection of a text.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct RawParams {
    /// `content`, `reasoning` or `calls`.
    part: Option<String>,
}

/// Sends a text of a message as it is. Errors: 404 (no such row, message or text), 400 (no such part).
pub async fn raw(
    State(app): State<Arc<PageState>>,
    Path((digest, output, row, message)): Path<(String, String, String, String)>,
    Query(params): Query<RawParams>,
) -> Result<Response, PageError> {
    let part: MessagePart = match params.part {
        Some(part) => part.parse().map_err(|why: String| wrong_parameter("part", why))?,
        None => MessagePart::default(),
    };
    let message: usize = message.parse().map_err(|why| wrong_parameter("message", why))?;
    let place = ArtifactPlace::find(&app, &digest, &output).await?;
    let text = message_text(&app.store, &place.name, &place.found, (row_number(&row)?, message, part)).await?;
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, POLICY)];
    Ok((headers, text).into_response())
}
