//! Lists, shows, pauses, resumes, triggers and backfills schedules.

use super::error::{ApiError, ApiResult};
use super::guard::RequestSender;
use super::state::ApiState;
use crate::operations::{self, BackfillRange, BackfillRow, OpenTick, SchedulePage, ScheduleRow};
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// All schedules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Schedules {
    /// Schedules, sorted by name.
    pub schedules: Vec<ScheduleRow>,
}

/// Request to pause a schedule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// Reason, shown with the schedule.
    #[serde(default)]
    pub why: Option<String>,
}

/// Empty body.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyBody {}

/// Outcome of a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeResponse {
    /// Whether the request changed anything.
    pub changed: bool,
}

/// The server, the sender, and the parameters of the path: the schedule, or the schedule and the backfill.
type ScheduleRequest<P = String> = (State<Arc<ApiState>>, Extension<RequestSender>, Path<P>);
type JsonBody<T> = Result<Json<T>, JsonRejection>;

pub async fn list(State(app): State<Arc<ApiState>>) -> ApiResult<Schedules> {
    Ok(Json(Schedules { schedules: operations::list(&app.store, app.clock.unix_millis()).await? }))
}

pub async fn show(State(app): State<Arc<ApiState>>, Path(name): Path<String>) -> ApiResult<SchedulePage> {
    require(&app, &name).await?;
    Ok(Json(operations::show(&app.store, &name, app.clock.unix_millis()).await?))
}

pub async fn pause(
    (State(app), Extension(RequestSender(sender)), Path(name)): ScheduleRequest,
    body: JsonBody<PauseRequest>,
) -> ApiResult<ChangeResponse> {
    let Json(PauseRequest { why }) = body?;
    require(&app, &name).await?;
    changed(&app, operations::pause(&app.store, &name, app.actor(&sender), why).await?)
}

pub async fn resume(
    (State(app), Extension(RequestSender(sender)), Path(name)): ScheduleRequest,
    body: JsonBody<EmptyBody>,
) -> ApiResult<ChangeResponse> {
    let Json(EmptyBody {}) = body?;
    require(&app, &name).await?;
    changed(&app, operations::resume(&app.store, &name, app.actor(&sender)).await?)
}

pub async fn trigger(
    (State(app), Extension(RequestSender(sender)), Path(name)): ScheduleRequest,
    body: JsonBody<EmptyBody>,
) -> ApiResult<OpenTick> {
    let Json(EmptyBody {}) = body?;
    require(&app, &name).await?;
    let tick = operations::trigger(&app.store, &name, app.actor(&sender)).await?;
    app.daemon.wake();
    Ok(Json(tick))
}

pub async fn backfill(
    (State(app), Extension(RequestSender(sender)), Path(name)): ScheduleRequest,
    body: JsonBody<BackfillRange>,
) -> ApiResult<BackfillRow> {
    let Json(range) = body?;
    require(&app, &name).await?;
    let row = operations::backfill(&app.store, &name, app.actor(&sender), &range).await?;
    app.daemon.wake();
    Ok(Json(row))
}

pub async fn cancel_backfill(
    (State(app), Extension(RequestSender(sender)), Path((name, id))): ScheduleRequest<(String, String)>,
    body: JsonBody<EmptyBody>,
) -> ApiResult<ChangeResponse> {
    let Json(EmptyBody {}) = body?;
    let page = operations::show(&app.store, &name, app.clock.unix_millis());
    require(&app, &name).await?;
    if !page.await?.backfills.iter().any(|backfill| backfill.id == id) {
        return Err(ApiError::not_found(
            format!("schedule `{name}` has no backfill `{id}`"),
            "the page of the schedule lists its backfills",
        ));
    }
    changed(&app, operations::cancel_backfill(&app.store, &name, &id, app.actor(&sender)).await?)
}

fn changed(app: &ApiState, changed: bool) -> ApiResult<ChangeResponse> {
    app.daemon.wake();
    Ok(Json(ChangeResponse { changed }))
}

async fn require(app: &ApiState, name: &str) -> Result<(), ApiError> {
    if operations::exists(&app.store, name).await? {
        return Ok(());
    }
    Err(ApiError::not_found(format!("there is no schedule `{name}`"), "GET /api/v1/schedules lists them"))
}
