//! Lists runs, and shows one with its stages.

use crate::annotations::{self, RunTags};
use crate::status::{DAMAGED, is_live, outcome_name, state};
use futures::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::event::OutputSummary;
use trainyard_core::progress::ProgressRecord;
use trainyard_core::units::format_time;
use trainyard_core::{AttemptNumber, Clock, Error, ErrorKind, Result, RunId, StageKey};
use trainyard_engine::fold::{RunView, StageStatus, StageView, Totals};
use trainyard_runtime::progress::read_progress;
use trainyard_runtime::summary::{self, LoadedSummary};
use trainyard_store::Store;

/// Maximum runs on one page.
const MAX_RUNS: usize = 200;
/// Maximum stages on one page.
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
    /// Only runs with this tag.
    #[serde(default)]
    pub tag: Option<String>,
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
    /// Tags of the run, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
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

impl OutputRow {
    pub(crate) fn of_summary(output: &OutputSummary) -> Self {
        Self { kind: output.kind.to_string(), digest: output.digest.to_string(), bytes: output.size, rows: output.rows }
    }
}

/// Returns the runs older than `before` that have the tag, oldest first, and the tags of all runs. Errors: those of
/// reaching the store.
pub(crate) async fn selected(store: &Store, before: Option<&str>, tag: Option<&str>) -> Result<(Vec<RunId>, RunTags)> {
    let mut runs = store.list_runs().await?;
    if let Some(before) = before {
        runs.retain(|run| run.0.as_str() < before);
    }
    let tags = annotations::tags(store).await?;
    if let Some(tag) = tag {
        runs.retain(|run| tags.get(run).is_some_and(|tags| tags.iter().any(|own| own == tag)));
    }
    Ok((runs, tags))
}

/// Lists runs, newest first. Errors: those of reaching the store.
pub async fn list(store: &Store, clock: &dyn Clock, query: &RunListQuery) -> Result<Runs> {
    let limit = query.limit.unwrap_or(20).clamp(1, MAX_RUNS);
    let (all, mut tags) = selected(store, query.before.as_deref(), query.tag.as_deref()).await?;
    let more = all.len() > limit;
    let selected: Vec<RunId> = all.into_iter().rev().take(limit).collect();
    let rows = futures::stream::iter(selected).map(|run| async move { row(store, clock, &run).await });
    let rows: Vec<Result<RunRow>> = rows.buffered(AT_ONCE).collect().await;
    let mut runs = rows.into_iter().collect::<Result<Vec<_>>>()?;
    for row in &mut runs {
        row.tags = tags.remove(&row.run).unwrap_or_default();
    }
    let next = runs.last().filter(|_| more).map(|row| row.run.0.clone());
    Ok(Runs { runs, next })
}

/// Shows a run and a page of its stages. Errors: invalid (no such run), those of the store.
pub async fn show(store: &Store, clock: &dyn Clock, run: &RunId, query: &RunStagesQuery) -> Result<RunPage> {
    let view = crate::find::view(store, run).await?;
    let (from, limit) = (query.from.unwrap_or(0), query.limit.unwrap_or(500).clamp(1, MAX_STAGES));
    let progress = read_progress(store, run, &view).await?;
    let is_live = is_live(&view, clock);
    let row = |stage: &StageView| stage_row(stage, progress.get(stage.key()), is_live);
    let page: Vec<StageRow> = view.stages.iter().skip(from).take(limit).map(row).collect();
    let reached = from.saturating_add(page.len());
    Ok(RunPage {
        row: RunRow { tags: annotations::tags_of(store, run).await?, ..row_of_view(run, &view, clock) },
        source: view.source.clone(),
        params: view.params.clone(),
        plan: view.plan_digest.as_ref().map(ToString::to_string),
        writer: view.writer.name.clone(),
        page,
        next: (reached < view.stages.len()).then_some(reached),
    })
}

/// Returns the row of a run whose journal is read, without its tags.
pub fn row_of_view(run: &RunId, view: &RunView, clock: &dyn Clock) -> RunRow {
    row_of(run, state(view, clock), &view.totals())
}

pub(crate) async fn row(store: &Store, clock: &dyn Clock, run: &RunId) -> Result<RunRow> {
    match summary::read_summary(store, run).await {
        Ok(LoadedSummary::Totals(totals)) => Ok(row_of(run, outcome_name(totals.outcome), &totals)),
        Ok(LoadedSummary::View(view)) => Ok(row_of(run, state(&view, clock), &view.totals())),
        // An unreachable store fails the whole list.
        Err(error) if error.kind == ErrorKind::Retryable => Err(error),
        Err(error) => Ok(damaged(run, &error)),
    }
}

fn damaged(run: &RunId, error: &Error) -> RunRow {
    RunRow {
        run: run.clone(),
        status: DAMAGED.to_string(),
        why: Some(error.to_string()),
        workflow: None,
        created: None,
        seconds: None,
        stages: BTreeMap::new(),
        tags: Vec::new(),
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
        tags: Vec::new(),
    }
}

/// Returns the row of a stage. `is_live`: the run has ended, or its writer is alive.
pub fn stage_row(stage: &StageView, progress: Option<&ProgressRecord>, is_live: bool) -> StageRow {
    StageRow {
        stage: stage.key().clone(),
        kind: stage.kind.clone(),
        status: stage.shown_status(is_live).to_string(),
        started: stage.started.map(format_time),
        ended: stage.ended.map(format_time),
        attempts: stage.attempts.iter().map(|attempt| attempt.number).collect(),
        digest: stage.digest.as_ref().map(ToString::to_string),
        metrics: stage.metrics.clone().into_iter().collect(),
        outputs: stage.outputs.iter().map(|(port, summary)| (port.clone(), OutputRow::of_summary(summary))).collect(),
        after: stage.after.iter().map(|key| StageKey(key.to_string())).collect(),
        progress: progress.cloned(),
        why: stage.why.clone(),
        error: stage.error.as_ref().filter(|_| stage.status == StageStatus::Failed).map(ToString::to_string),
    }
}
