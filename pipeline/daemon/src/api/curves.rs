//! Shows the learning curves of a stage.

use super::error::ApiResult;
use super::state::ApiState;
use super::stream_page::{StreamQuery, read};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use trainyard_core::AttemptNumber;
use trainyard_runtime::curves;
use trainyard_store::AttemptStream;

/// Page of an attempt's learning curves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurvePage {
    /// Attempt number; 0 if the stage has no attempt.
    pub attempt: AttemptNumber,
    /// Points in the order of reporting.
    pub points: Vec<CurvePoint>,
    /// Value of `from` for the next page. A running attempt may report more.
    pub next: u32,
    /// Whether more points are available already.
    pub more: bool,
}

/// Point of a learning curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurvePoint {
    /// Metric name.
    pub name: String,
    /// Step, from 1.
    pub step: u64,
    /// Value of the metric.
    pub value: f64,
}

pub async fn show(
    State(app): State<Arc<ApiState>>,
    Path(run): Path<String>,
    query: Result<Query<StreamQuery>, QueryRejection>,
) -> ApiResult<CurvePage> {
    let Query(query) = query?;
    let page = read(&app, &run, query, AttemptStream::Metrics).await?;
    let point = |(name, step, value)| CurvePoint { name, step, value };
    let points = curves::points(&page.bytes).into_iter().map(point).collect();
    Ok(Json(CurvePage { attempt: page.attempt, points, next: page.next, more: page.more }))
}
