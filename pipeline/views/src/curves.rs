//! Shows the learning curves of a stage.

use crate::stream_page::{StreamQuery, read};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{AttemptNumber, Result, RunId};
use trainyard_runtime::curves;
use trainyard_store::{AttemptStream, Store};

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

/// Shows a page of a stage's learning curves. Errors: invalid (no such run or stage), those of the store.
pub async fn show(store: &Store, run: &RunId, query: &StreamQuery) -> Result<CurvePage> {
    let page = read(store, run, query, AttemptStream::Metrics).await?;
    let point = |(name, step, value)| CurvePoint { name, step, value };
    let points = curves::points(&page.bytes).into_iter().map(point).collect();
    Ok(CurvePage { attempt: page.attempt, points, next: page.next, more: page.more })
}
