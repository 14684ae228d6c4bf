//! Schedules: list, show, pause, resume, trigger and backfill.

use super::app::App;
use super::error::{ApiError, ApiResult};
use super::guard::Sender;
use crate::book::{self, BackfillRow, OpenTick, Range, SchedulePage, ScheduleRow};
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
pub struct Reason {
    /// Reason, shown with the schedule.
    #[serde(default)]
    pub why: Option<String>,
}

/// Empty body.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Outcome of a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    /// Whether the request changed anything.
    pub changed: bool,
}

type Body<T> = Result<Json<T>, JsonRejection>;

pub async fn list(State(app): State<Arc<App>>) -> ApiResult<Schedules> {
    Ok(Json(Schedules { schedules: book::list(&app.store, app.clock.unix_millis()).await? }))
}

pub async fn show(State(app): State<Arc<App>>, Path(name): Path<String>) -> ApiResult<SchedulePage> {
    require(&app, &name).await?;
    Ok(Json(book::show(&app.store, &name, app.clock.unix_millis()).await?))
}

pub async fn pause(
    State(app): State<Arc<App>>,
    Extension(Sender(sender)): Extension<Sender>,
    Path(name): Path<String>,
    body: Body<Reason>,
) -> ApiResult<Changed> {
    let Json(Reason { why }) = body?;
    require(&app, &name).await?;
    changed(&app, book::pause(&app.store, &name, app.actor(&sender), why).await?)
}

pub async fn resume(
    State(app): State<Arc<App>>,
    Extension(Sender(sender)): Extension<Sender>,
    Path(name): Path<String>,
    body: Body<Nothing>,
) -> ApiResult<Changed> {
    let Json(Nothing {}) = body?;
    require(&app, &name).await?;
    changed(&app, book::resume(&app.store, &name, app.actor(&sender)).await?)
}

pub async fn trigger(
    State(app): State<Arc<App>>,
    Extension(Sender(sender)): Extension<Sender>,
    Path(name): Path<String>,
    body: Body<Nothing>,
) -> ApiResult<OpenTick> {
    let Json(Nothing {}) = body?;
    require(&app, &name).await?;
    let tick = book::trigger(&app.store, &name, app.actor(&sender)).await?;
    app.daemon.wake();
    Ok(Json(tick))
}

pub async fn backfill(
    State(app): State<Arc<App>>,
    Extension(Sender(sender)): Extension<Sender>,
    Path(name): Path<String>,
    body: Body<Range>,
) -> ApiResult<BackfillRow> {
    let Json(range) = body?;
    require(&app, &name).await?;
    let row = book::backfill(&app.store, &name, app.actor(&sender), &range).await?;
    app.daemon.wake();
    Ok(Json(row))
}

pub async fn cancel_backfill(
    State(app): State<Arc<App>>,
    Extension(Sender(sender)): Extension<Sender>,
    Path((name, id)): Path<(String, String)>,
    body: Body<Nothing>,
) -> ApiResult<Changed> {
    let Json(Nothing {}) = body?;
    let page = book::show(&app.store, &name, app.clock.unix_millis());
    require(&app, &name).await?;
    if !page.await?.backfills.iter().any(|backfill| backfill.id == id) {
        return Err(ApiError::not_found(format!("schedule `{name}` has no backfill `{id}`"), "look at the schedule"));
    }
    changed(&app, book::cancel_backfill(&app.store, &name, &id, app.actor(&sender)).await?)
}

fn changed(app: &App, changed: bool) -> ApiResult<Changed> {
    app.daemon.wake();
    Ok(Json(Changed { changed }))
}

async fn require(app: &App, name: &str) -> Result<(), ApiError> {
    if book::exists(&app.store, name).await? {
        return Ok(());
    }
    Err(ApiError::not_found(format!("there is no schedule `{name}`"), "GET /api/v1/schedules lists them"))
}
