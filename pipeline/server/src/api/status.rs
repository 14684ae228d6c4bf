//! How the server and its daemon are.

use super::app::App;
use super::error::ApiResult;
use crate::schedule::event::time;
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A server that answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `ok`, or `degraded`: a file is broken, or a schedule could not be looked at.
    pub status: String,
    /// When the daemon looked at its schedules last, RFC 3339 in UTC; none if it has not yet.
    pub looked: Option<String>,
}

/// The program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// Name of the program.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Problems {
    /// Workflow files with mistakes; what they said before stays in force.
    pub broken: Vec<Problem>,
    /// Schedules that could not be looked at; an empty name stands for the folder.
    pub schedules: Vec<Problem>,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The file or schedule.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
}

pub async fn health(State(app): State<Arc<App>>) -> ApiResult<Health> {
    let seen = app.daemon.seen();
    let good = seen.broken.is_empty() && seen.troubles.is_empty();
    let looked = (seen.looked > 0).then(|| time(seen.looked));
    Ok(Json(Health { status: if good { "ok" } else { "degraded" }.to_string(), looked }))
}

pub async fn version(State(app): State<Arc<App>>) -> ApiResult<Version> {
    Ok(Json(Version { name: "trainyard".to_string(), version: app.version.to_string() }))
}

pub async fn problems(State(app): State<Arc<App>>) -> ApiResult<Problems> {
    let seen = app.daemon.seen();
    let list = |map: std::collections::BTreeMap<String, String>| {
        map.into_iter().map(|(name, why)| Problem { name, why }).collect()
    };
    Ok(Json(Problems { broken: list(seen.broken), schedules: list(seen.troubles) }))
}
