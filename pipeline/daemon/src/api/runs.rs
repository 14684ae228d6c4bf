//! Lists, shows and cancels runs.

use super::error::{ApiError, ApiResult};
use super::schedules::EmptyBody;
use super::state::ApiState;
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use futures::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::event::RunOutcome;
use trainyard_core::progress::ProgressRecord;
use trainyard_core::units::format_time;
use trainyard_core::{AttemptNumber, Error, ErrorKind, RunId, StageKey};
use trainyard_engine::fold::{RunView, StageStatus, StageView, Totals};
use trainyard_runtime::cancel::cancel_run;
use trainyard_runtime::progress::read_progress;
use trainyard_runtime::resume::{self, WriterState, writer_state};
use trainyard_runtime::summary::{self, LoadedSummary};

/// Maximum runs in one response.
const MAX_RUNS: usize = 200;
/// Maximum stages in one response.
const MAX_STAGES: usize = 2_000;
/// Runs read concurrently.
const AT_ONCE: usize = 8;

/// Selects runs.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunListQuery {
    /// Maximum number of runs (20, and never more than 200).
    #[serde(default)]
    pub limit: Option<usize>,
    /// Only runs older than this one: `next` of the previous response.
    #[serde(default)]
    pub before: Option<String>,
}

/// Page of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Runs {
    /// Runs, newest first.
    pub runs: Vec<RunRow>,
    /// Value of `before` for the next page; null on the last one.
    pub next: Option<String>,
}

/// Run, in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    /// Run id.
    pub run: RunId,
    /// `running`, `succeeded`, `failed`, `cancelled`, `unfinished` (no process continues it), or `damaged`.
    pub status: String,
    /// Reason why the journal cannot be read.
    pub why: Option<String>,
    /// Name of the workflow.
    pub workflow: Option<String>,
    /// Creation time; RFC 3339, UTC.
    pub created: Option<String>,
    /// Seconds from creation to end or last heartbeat.
    pub seconds: Option<f64>,
    /// Number of stages in each status.
    pub stages: BTreeMap<String, usize>,
}

/// Selects stages of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunStagesQuery {
    /// Index of the first stage (0).
    #[serde(default)]
    pub from: Option<usize>,
    /// Maximum number of stages (500, and never more than 2000).
    #[serde(default)]
    pub limit: Option<usize>,
}

/// Run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunPage {
    /// Summary.
    #[serde(flatten)]
    pub row: RunRow,
    /// Workflow file.
    pub source: String,
    /// Parameters after defaults.
    pub params: BTreeMap<String, Value>,
    /// Digest of the plan.
    pub plan: Option<String>,
    /// Writer of the run's journal.
    pub writer: String,
    /// Page of stages, in the order of the plan.
    pub page: Vec<StageRow>,
    /// Value of `from` for the next page; null on the last one.
    pub next: Option<usize>,
}

/// Stage of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageRow {
    /// Stage key.
    pub stage: StageKey,
    /// Stage kind.
    pub kind: String,
    /// Stage status; `interrupted` if the writer of the run is gone and no attempt outlives it.
    pub status: String,
    /// Start of the first attempt; RFC 3339, UTC.
    pub started: Option<String>,
    /// End of the stage; RFC 3339, UTC.
    pub ended: Option<String>,
    /// Attempt numbers.
    pub attempts: Vec<AttemptNumber>,
    /// Digest under which the stage is published.
    pub digest: Option<String>,
    /// Metrics by name.
    pub metrics: BTreeMap<String, f64>,
    /// Outputs by port.
    pub outputs: BTreeMap<String, OutputRow>,
    /// Keys of the stages that this one depends on.
    pub after: Vec<StageKey>,
    /// Last progress of a running stage, at most a few seconds old; null unless its attempt reported any.
    pub progress: Option<ProgressRecord>,
    /// Reason for the status: of a waiting or queued stage, what it waits for and who holds it.
    pub why: Option<String>,
    /// Reason for the failure.
    pub error: Option<String>,
}

/// Published output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutputRow {
    /// Kind of artifact.
    pub kind: String,
    /// Digest of the content.
    pub digest: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Number of rows, if the output is a table.
    pub rows: Option<u64>,
}

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
    let limit = query.limit.unwrap_or(20).clamp(1, MAX_RUNS);
    let mut all = app.store.list_runs().await?;
    if let Some(before) = query.before {
        all.retain(|run| run.0 < before);
    }
    let more = all.len() > limit;
    let selected: Vec<RunId> = all.into_iter().rev().take(limit).collect();
    let app = &app;
    let rows = futures::stream::iter(selected).map(|run| async move { row(app, &run).await });
    let rows: Vec<Result<RunRow, ApiError>> = rows.buffered(AT_ONCE).collect().await;
    let runs = rows.into_iter().collect::<Result<Vec<_>, _>>()?;
    let next = runs.last().filter(|_| more).map(|row| row.run.0.clone());
    Ok(Json(Runs { runs, next }))
}

pub async fn show(
    State(app): State<Arc<ApiState>>,
    Path(run): Path<String>,
    query: Result<Query<RunStagesQuery>, QueryRejection>,
) -> ApiResult<RunPage> {
    let Query(query) = query?;
    let (run, view) = open(&app, &run).await?;
    let (from, limit) = (query.from.unwrap_or(0), query.limit.unwrap_or(500).clamp(1, MAX_STAGES));
    let progress = read_progress(&app.store, &run, &view).await?;
    let is_live = view.finished.is_some() || writer_state(&view.writer, app.clock.as_ref()) == WriterState::Alive;
    let row = |stage: &StageView| stage_row(stage, progress.get(stage.key()), is_live);
    let page: Vec<StageRow> = view.stages.iter().skip(from).take(limit).map(row).collect();
    let reached = from.saturating_add(page.len());
    Ok(Json(RunPage {
        row: row_of(&run, state(&app, &view), &view.totals()),
        source: view.source.clone(),
        params: view.params.clone(),
        plan: view.plan_digest.as_ref().map(ToString::to_string),
        writer: view.writer.name.clone(),
        page,
        next: (reached < view.stages.len()).then_some(reached),
    }))
}

/// Requests a run to stop, in the background: checking a writer on another host takes half a minute, which is too long
/// for a response.
pub async fn cancel(
    State(app): State<Arc<ApiState>>,
    Path(run): Path<String>,
    body: Result<Json<EmptyBody>, JsonRejection>,
) -> ApiResult<CancelResponse> {
    let Json(EmptyBody {}) = body?;
    let (run, view) = open(&app, &run).await?;
    if view.finished.is_some() {
        return Ok(Json(CancelResponse { run, outcome: "finished".to_string() }));
    }
    let (app, id) = (app.clone(), run.clone());
    tokio::spawn(async move {
        let note = |text: &str| tracing::info!("{text}");
        if let Err(error) = cancel_run(&app.store, &id, app.clock.as_ref(), &app.chance, note).await {
            tracing::warn!(run = %id, %error, "cannot cancel a run");
        }
        app.daemon.wake();
    });
    Ok(Json(CancelResponse { run, outcome: "requested".to_string() }))
}

/// Returns the id of a run; `latest` is the newest run, and `latest-success` the newest one that succeeded. Does not
/// check that a run with another name exists. Errors: not found (no valid id, or no run at all).
pub async fn find(app: &ApiState, name: &str) -> Result<RunId, ApiError> {
    let missing = || ApiError::not_found(format!("there is no run `{name}`"), "GET /api/v1/runs lists them");
    if name == "latest" {
        return app.store.list_runs().await?.pop().ok_or_else(missing);
    }
    if name == "latest-success" {
        return summary::latest_success(&app.store).await?.ok_or_else(missing);
    }
    // Other characters could address other objects of the store.
    let is_id = name.len() >= 8 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if is_id { Ok(RunId(name.to_string())) } else { Err(missing()) }
}

/// Folds the journal of the run with this name, and returns its id and view. Errors: not found (no such run), those of
/// the store.
pub async fn open(app: &ApiState, name: &str) -> Result<(RunId, RunView), ApiError> {
    let run = find(app, name).await?;
    match resume::read_run(&app.store, &run).await {
        Ok(view) => Ok((run, view)),
        Err(error) if error.kind == ErrorKind::Invalid => {
            Err(ApiError::not_found(error.message, "GET /api/v1/runs lists them"))
        }
        Err(error) => Err(error.into()),
    }
}

async fn row(app: &ApiState, run: &RunId) -> Result<RunRow, ApiError> {
    match summary::read_summary(&app.store, run).await {
        Ok(LoadedSummary::Totals(totals)) => Ok(row_of(run, word(totals.outcome), &totals)),
        Ok(LoadedSummary::View(view)) => Ok(row_of(run, state(app, &view), &view.totals())),
        Err(error) if error.kind == ErrorKind::Retryable => Err(error.into()),
        Err(error) => Ok(damaged(run, &error)),
    }
}

fn damaged(run: &RunId, error: &Error) -> RunRow {
    RunRow {
        run: run.clone(),
        status: "damaged".to_string(),
        why: Some(error.to_string()),
        workflow: None,
        created: None,
        seconds: None,
        stages: BTreeMap::new(),
    }
}

fn row_of(run: &RunId, status: &str, totals: &Totals) -> RunRow {
    RunRow {
        run: run.clone(),
        status: status.to_string(),
        why: None,
        workflow: Some(totals.workflow.clone()),
        created: Some(format_time(totals.created)),
        seconds: Some((totals.until - totals.created) as f64 / 1_000.0),
        stages: totals.stages.iter().map(|(status, count)| (status.name().to_string(), *count)).collect(),
    }
}

fn stage_row(stage: &StageView, progress: Option<&ProgressRecord>, is_live: bool) -> StageRow {
    let output = |output: &trainyard_core::event::OutputSummary| OutputRow {
        kind: output.kind.to_string(),
        digest: output.digest.to_string(),
        bytes: output.size,
        rows: output.rows,
    };
    StageRow {
        stage: stage.key().clone(),
        kind: stage.kind.clone(),
        status: stage.shown_status(is_live).to_string(),
        started: stage.started.map(format_time),
        ended: stage.ended.map(format_time),
        attempts: stage.attempts.iter().map(|attempt| attempt.number).collect(),
        digest: stage.digest.as_ref().map(ToString::to_string),
        metrics: stage.metrics.clone().into_iter().collect(),
        outputs: stage.outputs.iter().map(|(port, summary)| (port.clone(), output(summary))).collect(),
        after: stage.after.iter().map(|key| StageKey(key.to_string())).collect(),
        progress: progress.cloned(),
        why: stage.why.clone(),
        error: stage.error.as_ref().filter(|_| stage.status == StageStatus::Failed).map(ToString::to_string),
    }
}

/// Returns the status. A run without an end is `running` while its writer is alive.
fn state(app: &ApiState, view: &RunView) -> &'static str {
    match (view.finished, writer_state(&view.writer, app.clock.as_ref())) {
        (None, WriterState::Alive) => "running",
        (finished, _) => word(finished.map(|(_, outcome)| outcome)),
    }
}

fn word(outcome: Option<RunOutcome>) -> &'static str {
    match outcome {
        Some(RunOutcome::Succeeded) => "succeeded",
        Some(RunOutcome::Failed) => "failed",
        Some(RunOutcome::Cancelled) => "cancelled",
        None => "unfinished",
    }
}
