//! Lists the artifacts that a run published, and shows one, a model with its parts, and its lineage.

use super::error::{ApiError, ApiResult};
use super::runs::{LISTED, id};
use super::state::ApiState;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use std::sync::Arc;
use trainyard_core::{Digest, Manifest};
use trainyard_views::artifacts::{self, ArtifactList, ArtifactListQuery, ArtifactPage};
use trainyard_views::find::{LATEST, ResolvedOutput};
use trainyard_views::lineage::{self, Lineage};

pub async fn list(
    State(app): State<Arc<ApiState>>,
    query: Result<Query<ArtifactListQuery>, QueryRejection>,
) -> ApiResult<ArtifactList> {
    let Query(query) = query?;
    let run = id(&app, query.run.as_deref().unwrap_or(LATEST)).await?;
    let list = artifacts::list(&app.store, &run, &query).await;
    Ok(Json(list.map_err(|error| ApiError::missing(error, LISTED))?))
}

pub async fn show(
    State(app): State<Arc<ApiState>>,
    Path((digest, port)): Path<(String, String)>,
) -> ApiResult<ArtifactPage> {
    let manifest = manifest(&app, &digest).await?;
    if !manifest.outputs.contains_key(&port) {
        let message = format!("stage {digest} has no output `{port}`");
        return Err(ApiError::not_found(message, "GET /api/v1/artifacts lists them"));
    }
    Ok(Json(artifacts::show(&app.store, &ResolvedOutput { manifest, port }).await?))
}

pub async fn lineage(State(app): State<Arc<ApiState>>, Path(digest): Path<String>) -> ApiResult<Lineage> {
    let manifest = manifest(&app, &digest).await?;
    Ok(Json(lineage::of_stage(&app.store, manifest).await?))
}

/// Returns the newest manifest of a stage digest.
async fn manifest(app: &ApiState, digest: &str) -> Result<Manifest, ApiError> {
    let missing = || {
        let message = format!("no stage of digest `{digest}` is published");
        ApiError::not_found(message, "GET /api/v1/artifacts lists artifacts with their stage digests")
    };
    let digest = Digest::try_from(digest.to_string()).map_err(|_| missing())?;
    app.store.manifest(&digest).await?.ok_or_else(missing)
}
