//! The learning curves of a stage.

use super::app::App;
use super::error::{ApiError, ApiResult};
use super::runs::open;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use trainyard_core::{AttemptNumber, StageKey};
use trainyard_runtime::curves;
use trainyard_store::Chunk;

/// Bytes of stored points in one answer, beyond which no further chunk is read.
const MOST_BYTES: usize = 1 << 20;

/// Which points.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CurvesQuery {
    /// Key of the stage.
    pub stage: String,
    /// Number of the attempt (the last one). One that went on from a resume point repeats the steps behind it.
    #[serde(default)]
    pub attempt: Option<AttemptNumber>,
    /// Where to begin (0): `next` of the answer before.
    #[serde(default)]
    pub from: Option<u32>,
}

/// A piece of the learning curves of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curves {
    /// The attempt; 0 if the stage has none.
    pub attempt: AttemptNumber,
    /// In the order of reporting.
    pub points: Vec<CurvePoint>,
    /// What `from` takes to read on. A running attempt may report more.
    pub next: u32,
    /// Whether there is more already.
    pub more: bool,
}

/// A point of a learning curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurvePoint {
    /// Name of the metric.
    pub name: String,
    /// Step, from 1.
    pub step: u64,
    /// Its value.
    pub value: f64,
}

pub async fn show(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
    query: Result<Query<CurvesQuery>, QueryRejection>,
) -> ApiResult<Curves> {
    let Query(query) = query?;
    let (run, view) = open(&app, &run).await?;
    let key = StageKey(query.stage.clone());
    let stage = view.stage(&key).ok_or_else(|| {
        ApiError::not_found(format!("run {run} has no stage `{key}`"), "the run's page lists its stages")
    })?;
    let last = stage.attempts.last().map(|attempt| attempt.number);
    let from = query.from.unwrap_or(0);
    let Some(attempt) = query.attempt.or(last) else {
        return Ok(Json(Curves { attempt: 0, points: Vec::new(), next: from, more: false }));
    };
    let (mut lines, mut next, mut more) = (Vec::new(), from, false);
    let mut chunks = app.store.chunks(&run, &key, attempt, Chunk::Metrics, from);
    while let Some(chunk) = chunks.next().await? {
        if lines.len() >= MOST_BYTES {
            more = true;
            break;
        }
        lines.extend_from_slice(&chunk);
        next += 1;
    }
    let point = |(name, step, value)| CurvePoint { name, step, value };
    let points = curves::points(&lines).into_iter().map(point).collect();
    Ok(Json(Curves { attempt, points, next, more }))
}
