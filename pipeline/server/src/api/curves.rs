//! The learning curves of a stage.

use super::app::App;
use super::error::ApiResult;
use super::pieces::{PieceQuery, read};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use trainyard_core::AttemptNumber;
use trainyard_runtime::curves;
use trainyard_store::Chunk;

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
    query: Result<Query<PieceQuery>, QueryRejection>,
) -> ApiResult<Curves> {
    let Query(query) = query?;
    let piece = read(&app, &run, query, Chunk::Metrics).await?;
    let point = |(name, step, value)| CurvePoint { name, step, value };
    let points = curves::points(&piece.bytes).into_iter().map(point).collect();
    Ok(Json(Curves { attempt: piece.attempt, points, next: piece.next, more: piece.more }))
}
