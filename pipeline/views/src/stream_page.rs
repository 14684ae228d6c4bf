//! Reads the log or the learning curves of an attempt page by page, because either may be too long for one response.

use crate::find;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{AttemptNumber, Result, RunId};
use trainyard_store::{AttemptStream, Store};

/// Bytes of a stream in one response; no further chunk is read beyond them.
const MAX_BYTES: usize = 1 << 20;

/// Selects a page.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamQuery {
    /// Key of the stage.
    pub stage: String,
    /// Attempt number (the last one). An attempt resumed from a checkpoint repeats the steps after it.
    #[serde(default)]
    pub attempt: Option<AttemptNumber>,
    /// First chunk (0): `next` of the previous response.
    #[serde(default)]
    pub from: Option<u32>,
}

/// Page of a stream.
pub(crate) struct StreamPage {
    /// Attempt number; 0 if the stage has no attempt.
    pub attempt: AttemptNumber,
    pub bytes: Vec<u8>,
    /// Number of the chunk after this page.
    pub next: u32,
    /// Whether that chunk exists already.
    pub more: bool,
}

/// Reads a page of a stream. Without an attempt number in `query`, reads the last attempt; the page is empty if the
/// stage has no attempt. Errors: invalid (no such run or stage), those of the store.
pub(crate) async fn read(store: &Store, run: &RunId, query: &StreamQuery, stream: AttemptStream) -> Result<StreamPage> {
    let view = find::view(store, run).await?;
    let stage = find::stage(&view, &query.stage)?;
    let last = stage.attempts.last().map(|attempt| attempt.number);
    let mut page = StreamPage { attempt: 0, bytes: Vec::new(), next: query.from.unwrap_or(0), more: false };
    let Some(attempt) = query.attempt.or(last) else { return Ok(page) };
    page.attempt = attempt;
    let mut chunks = store.chunks(run, stage.key(), attempt, stream, page.next);
    while let Some(chunk) = chunks.next().await? {
        if page.bytes.len() >= MAX_BYTES {
            page.more = true;
            break;
        }
        page.bytes.extend_from_slice(&chunk);
        page.next += 1;
    }
    Ok(page)
}
