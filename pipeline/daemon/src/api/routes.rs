//! All routes: path, request, response and handler of each.

use super::app::App;
use super::pieces::PieceQuery;
use super::route::Route;
use super::{artifacts, curves, lineage, logs, openapi, runs, schedules, status};
use crate::book::{BackfillRow, OpenTick, Range, SchedulePage};
use axum::Json;
use axum::http::Method;
use axum::routing::{MethodRouter, get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;
use std::sync::Arc;

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn read<A: JsonSchema>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: MethodRouter<Arc<App>>,
) -> Route {
    let answer = schema_of::<A>;
    Route { method: Method::GET, path, id, summary, query: None, body: None, answer, handler }
}

/// Builds a route that reads, with a query string.
fn query<Q: JsonSchema, A: JsonSchema>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: MethodRouter<Arc<App>>,
) -> Route {
    Route { query: Some(Q::json_schema), ..read::<A>(path, id, summary, handler) }
}

/// Builds a route that changes something.
fn change<B: JsonSchema, A: JsonSchema>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: MethodRouter<Arc<App>>,
) -> Route {
    Route { method: Method::POST, body: Some(schema_of::<B>), ..read::<A>(path, id, summary, handler) }
}

async fn document() -> Json<Value> {
    Json(openapi::document(&all()))
}

/// Returns all routes, in the order of the document.
pub fn all() -> Vec<Route> {
    use schedules::{Changed, Nothing, Reason, Schedules};
    vec![
        read::<status::Health>("/health", "health", "How the server is; takes no token", get(status::health)),
        read::<status::Version>("/version", "version", "The program and its version", get(status::version)),
        read::<status::Problems>("/problems", "problems", "Broken files, unreadable schedules", get(status::problems)),
        read::<Value>("/openapi.json", "openapi", "This document", get(document)),
        query::<runs::ListQuery, runs::Runs>("/runs", "runs", "Runs, newest first", get(runs::list)),
        query::<runs::ShowQuery, runs::RunPage>("/runs/{run}", "run", "A run and its stages", get(runs::show)),
        query::<PieceQuery, logs::Log>("/runs/{run}/logs", "logs", "What a stage logged", get(logs::show)),
        query::<PieceQuery, curves::Curves>(
            "/runs/{run}/curves",
            "curves",
            "Learning curves of a stage",
            get(curves::show),
        ),
        change::<Nothing, runs::Cancelled>("/runs/{run}/cancel", "cancel_run", "Stop a run", post(runs::cancel)),
        query::<artifacts::ListQuery, artifacts::Artifacts>(
            "/artifacts",
            "artifacts",
            "What a run published or took from the cache",
            get(artifacts::list),
        ),
        read::<artifacts::ArtifactPage>(
            "/artifacts/{digest}/{output}",
            "artifact",
            "An artifact, by stage digest and output",
            get(artifacts::show),
        ),
        read::<lineage::Lineage>(
            "/lineage/{digest}",
            "lineage",
            "All that a stage's artifacts were made of",
            get(lineage::show),
        ),
        read::<Schedules>("/schedules", "schedules", "All schedules", get(schedules::list)),
        read::<SchedulePage>("/schedules/{name}", "schedule", "A schedule", get(schedules::show)),
        change::<Reason, Changed>(
            "/schedules/{name}/pause",
            "pause_schedule",
            "Let a schedule start no runs",
            post(schedules::pause),
        ),
        change::<Nothing, Changed>(
            "/schedules/{name}/resume",
            "resume_schedule",
            "Let a schedule start runs again",
            post(schedules::resume),
        ),
        change::<Nothing, OpenTick>(
            "/schedules/{name}/trigger",
            "trigger_schedule",
            "Start a run now",
            post(schedules::trigger),
        ),
        change::<Range, BackfillRow>(
            "/schedules/{name}/backfills",
            "backfill_schedule",
            "Run the ticks of a range",
            post(schedules::backfill),
        ),
        change::<Nothing, Changed>(
            "/schedules/{name}/backfills/{backfill}/cancel",
            "cancel_backfill",
            "Let a backfill start no more runs",
            post(schedules::cancel_backfill),
        ),
    ]
}
