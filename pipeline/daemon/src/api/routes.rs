//! Lists all routes, with the path, request, response and handler of each.

use super::route::ApiRoute;
use super::state::ApiState;
use super::{artifacts, index, openapi, runs, schedules, status};
use crate::operations::{BackfillRange, BackfillRow, OpenTick, SchedulePage};
use axum::Json;
use axum::http::Method;
use axum::routing::{MethodRouter, get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;
use std::sync::Arc;
use trainyard_views::artifacts::{ArtifactList, ArtifactListQuery, ArtifactPage};
use trainyard_views::curves::CurvePage;
use trainyard_views::lineage::Lineage;
use trainyard_views::logs::LogPage;
use trainyard_views::runs::{RunListQuery, RunPage, RunStagesQuery, Runs};
use trainyard_views::stream_page::StreamQuery;

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn read<A: JsonSchema>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: MethodRouter<Arc<ApiState>>,
) -> ApiRoute {
    let response = schema_of::<A>;
    ApiRoute { method: Method::GET, path, id, summary, query: None, body: None, response, handler }
}

/// Builds a route that reads, with a query string.
fn query<Q: JsonSchema, A: JsonSchema>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: MethodRouter<Arc<ApiState>>,
) -> ApiRoute {
    ApiRoute { query: Some(Q::json_schema), ..read::<A>(path, id, summary, handler) }
}

/// Builds a route that changes something.
fn change<B: JsonSchema, A: JsonSchema>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: MethodRouter<Arc<ApiState>>,
) -> ApiRoute {
    ApiRoute { method: Method::POST, body: Some(schema_of::<B>), ..read::<A>(path, id, summary, handler) }
}

async fn document() -> Json<Value> {
    Json(openapi::document(&all()))
}

pub async fn root() -> Json<index::Index> {
    Json(index::of(&all()))
}

/// Returns all routes, in the order of the document.
pub fn all() -> Vec<ApiRoute> {
    use schedules::{ChangeResponse, EmptyBody, PauseRequest, Schedules};
    vec![
        read::<index::Index>("", "index", "All paths", get(root)),
        read::<status::Health>("/health", "health", "Health of the server; requires no token", get(status::health)),
        read::<status::Version>("/version", "version", "The program and its version", get(status::version)),
        read::<status::Problems>(
            "/problems",
            "problems",
            "Broken workflow files and unreadable schedules",
            get(status::problems),
        ),
        read::<Value>("/openapi.json", "openapi", "This document", get(document)),
        query::<RunListQuery, Runs>("/runs", "runs", "Runs, newest first", get(runs::list)),
        query::<RunStagesQuery, RunPage>("/runs/{run}", "run", "A run and its stages", get(runs::show)),
        query::<StreamQuery, LogPage>("/runs/{run}/logs", "logs", "Log of a stage", get(runs::logs)),
        query::<StreamQuery, CurvePage>(
            "/runs/{run}/curves",
            "curves",
            "Learning curves of a stage",
            get(runs::curves),
        ),
        change::<EmptyBody, runs::CancelResponse>("/runs/{run}/cancel", "cancel_run", "Stop a run", post(runs::cancel)),
        query::<ArtifactListQuery, ArtifactList>(
            "/artifacts",
            "artifacts",
            "Artifacts that a run published or took from the cache",
            get(artifacts::list),
        ),
        read::<ArtifactPage>(
            "/artifacts/{digest}/{output}",
            "artifact",
            "An artifact, by stage digest and output",
            get(artifacts::show),
        ),
        read::<Lineage>("/lineage/{digest}", "lineage", "Lineage of the artifacts of a stage", get(artifacts::lineage)),
        read::<Schedules>("/schedules", "schedules", "All schedules", get(schedules::list)),
        read::<SchedulePage>("/schedules/{name}", "schedule", "A schedule", get(schedules::show)),
        change::<PauseRequest, ChangeResponse>(
            "/schedules/{name}/pause",
            "pause_schedule",
            "Pause a schedule",
            post(schedules::pause),
        ),
        change::<EmptyBody, ChangeResponse>(
            "/schedules/{name}/resume",
            "resume_schedule",
            "Resume a schedule",
            post(schedules::resume),
        ),
        change::<EmptyBody, OpenTick>(
            "/schedules/{name}/trigger",
            "trigger_schedule",
            "Start a run now",
            post(schedules::trigger),
        ),
        change::<BackfillRange, BackfillRow>(
            "/schedules/{name}/backfills",
            "backfill_schedule",
            "Run the ticks of a range",
            post(schedules::backfill),
        ),
        change::<EmptyBody, ChangeResponse>(
            "/schedules/{name}/backfills/{backfill}/cancel",
            "cancel_backfill",
            "Cancel a backfill",
            post(schedules::cancel_backfill),
        ),
    ]
}
