//! Lists, shows and cancels runs.

use super::error::{ApiError, ApiResult};
use super::schedules::EmptyBody;
use super::state::ApiState;
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use trainyard_core::RunId;
use trainyard_runtime::cancel::cancel_run;
use trainyard_views::curves::{self, CurvePage};
use trainyard_views::find::{self, LATEST, LATEST_SUCCESS};
use trainyard_views::logs::{self, LogPage};
use trainyard_views::runs::{self, RunListQuery, RunPage, RunStagesQuery, Runs};
use trainyard_views::stream_page::StreamQuery;

/// Help of errors about unknown runs.
pub const LISTED: &str = "GET /api/v1/runs lists them";

/// Outcome of a request to cancel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CancelResponse {
    /// Run id.
    pub run: RunId,
    /// `requested`: the run ends within seconds; `finished`: the run was over before.
    pub outcome: String,
}

pub async fn list(
    State(app): State<Arc<ApiState>>,
    query: Result<Query<RunListQuery>, QueryRejection>,
) -> ApiResult<Runs> {
    let Query(query) = query?;
    Ok(Json(runs::list(&app.store, app.clock.as_ref(), &query).await?))
}

pub async fn show(
    State(app): State<Arc<ApiState>>,
    Path(run): Path<String>,
    query: Result<Query<RunStagesQuery>, QueryRejection>,
) -> ApiResult<RunPage> {
    let Query(query) = query?;
    let run = id(&app, &run).await?;
    let page = runs::show(&app.store, app.clock.as_ref(), &run, &query).await;
    Ok(Json(page.map_err(|error| ApiError::missing(error, LISTED))?))
}

pub async fn logs(
    State(app): State<Arc<ApiState>>,
    Path(run): Path<String>,
    query: Result<Query<StreamQuery>, QueryRejection>,
) -> ApiResult<LogPage> {
    let Query(query) = query?;
    let run = id(&app, &run).await?;
    let page = logs::show(&app.store, &run, &query).await;
    Ok(Json(page.map_err(|error| ApiError::missing(error, LISTED))?))
}

pub async fn curves(
    State(app): State<Arc<ApiState>>,
    Path(run): Path<String>,
    query: Result<Query<StreamQuery>, QueryRejection>,
) -> ApiResult<CurvePage> {
    let Query(query) = query?;
    let run = id(&app, &run).await?;
    let page = curves::show(&app.store, &run, &query).await;
    Ok(Json(page.map_err(|error| ApiError::missing(error, LISTED))?))
}

/// Requests a run to stop, in the background: checking a writer on another host takes half a minute, which is too long
/// for a response.
pub async fn cancel(
    State(app): State<Arc<ApiState>>,
    Path(run): Path<String>,
    body: Result<Json<EmptyBody>, JsonRejection>,
) -> ApiResult<CancelResponse> {
    let Json(EmptyBody {}) = body?;
    let run = id(&app, &run).await?;
    let requested = request_cancel(&app, &run).await.map_err(|error| ApiError::missing(error, LISTED))?;
    let outcome = if requested { "requested" } else { "finished" };
    Ok(Json(CancelResponse { run, outcome: outcome.to_string() }))
}

/// Requests a run to stop, in the background; returns false if it is over. Errors: invalid (no such run), those of the
/// store.
pub async fn request_cancel(app: &Arc<ApiState>, run: &RunId) -> trainyard_core::Result<bool> {
    if find::view(&app.store, run).await?.finished.is_some() {
        return Ok(false);
    }
    let (app, id) = (app.clone(), run.clone());
    tokio::spawn(async move {
        let note = |text: &str| tracing::info!("{text}");
        if let Err(error) = cancel_run(&app.store, &id, app.clock.as_ref(), &app.chance, note).await {
            tracing::warn!(run = %id, %error, "cannot cancel a run");
        }
        app.daemon.wake();
    });
    Ok(true)
}

/// Returns the id of a run, which may be called `latest` or `latest-success`. Does not check that a run with another
/// name exists. Errors: not found (no valid id, or no run at all).
pub async fn id(app: &ApiState, name: &str) -> Result<RunId, ApiError> {
    if name == LATEST || name == LATEST_SUCCESS {
        return find::run(&app.store, name).await.map_err(|error| ApiError::missing(error, LISTED));
    }
    // Other characters could address other objects of the store.
    let is_id = name.len() >= 8 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if is_id {
        Ok(RunId(name.to_string()))
    } else {
        Err(ApiError::not_found(format!("there is no run `{name}`"), LISTED))
    }
}
