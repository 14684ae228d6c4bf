//! Streams of attempts, read in pieces: a log or a curve may be longer than an answer should be.

use super::app::App;
use super::error::ApiError;
use super::runs::open;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{AttemptNumber, StageKey};
use trainyard_store::Chunk;

/// Bytes of a stream in one answer, beyond which no further chunk is read.
const MOST_BYTES: usize = 1 << 20;

/// Which piece.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PieceQuery {
    /// Key of the stage.
    pub stage: String,
    /// Number of the attempt (the last one). One that went on from a resume point repeats the steps behind it.
    #[serde(default)]
    pub attempt: Option<AttemptNumber>,
    /// Where to begin (0): `next` of the answer before.
    #[serde(default)]
    pub from: Option<u32>,
}

/// What was read of a stream.
pub struct Piece {
    /// The attempt; 0 if the stage has none.
    pub attempt: AttemptNumber,
    pub bytes: Vec<u8>,
    /// Number of the chunk behind it.
    pub next: u32,
    /// Whether that chunk is there already.
    pub more: bool,
}

/// Reads a piece. Errors: there is no such run or stage, the store.
pub async fn read(app: &App, run: &str, query: PieceQuery, stream: Chunk) -> Result<Piece, ApiError> {
    let (run, view) = open(app, run).await?;
    let key = StageKey(query.stage);
    let stage = view.stage(&key).ok_or_else(|| {
        ApiError::not_found(format!("run {run} has no stage `{key}`"), "the run's page lists its stages")
    })?;
    let last = stage.attempts.last().map(|attempt| attempt.number);
    let mut piece = Piece { attempt: 0, bytes: Vec::new(), next: query.from.unwrap_or(0), more: false };
    let Some(attempt) = query.attempt.or(last) else { return Ok(piece) };
    piece.attempt = attempt;
    let mut chunks = app.store.chunks(&run, &key, attempt, stream, piece.next);
    while let Some(chunk) = chunks.next().await? {
        if piece.bytes.len() >= MOST_BYTES {
            piece.more = true;
            break;
        }
        piece.bytes.extend_from_slice(&chunk);
        piece.next += 1;
    }
    Ok(piece)
}
