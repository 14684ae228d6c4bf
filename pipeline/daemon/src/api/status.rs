//! Reports the health, the version and the problems of the server and its daemon.

use super::error::ApiResult;
use super::state::ApiState;
use crate::schedule::event::time;
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Health of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `ok`, or `degraded`: a file is broken, or a schedule could not be checked.
    pub status: String,
    /// Last time the daemon checked its schedules; RFC 3339, UTC; null before the first check.
    pub looked: Option<String>,
}

/// Name and version of the server's program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// Name of the program.
    pub name: String,
    /// Version of the program.
    pub version: String,
}

/// Current problems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Problems {
    /// Workflow files with mistakes; their previous content stays in force.
    pub broken: Vec<ServerProblem>,
    /// Schedules that could not be checked; an empty name means the folder.
    pub schedules: Vec<ServerProblem>,
}

/// Problem with a file or schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerProblem {
    /// File or schedule.
    pub name: String,
    /// Description of the problem.
    pub why: String,
}

pub async fn health(State(app): State<Arc<ApiState>>) -> ApiResult<Health> {
    let status = app.daemon.status();
    let healthy = status.broken.is_empty() && status.errors.is_empty();
    let looked = (status.looked > 0).then(|| time(status.looked));
    Ok(Json(Health { status: if healthy { "ok" } else { "degraded" }.to_string(), looked }))
}

pub async fn version(State(app): State<Arc<ApiState>>) -> ApiResult<Version> {
    Ok(Json(Version { name: "trainyard".to_string(), version: app.version.to_string() }))
}

pub async fn problems(State(app): State<Arc<ApiState>>) -> ApiResult<Problems> {
    let status = app.daemon.status();
    let list = |map: std::collections::BTreeMap<String, String>| {
        map.into_iter().map(|(name, why)| ServerProblem { name, why }).collect()
    };
    Ok(Json(Problems { broken: list(status.broken), schedules: list(status.errors) }))
}
