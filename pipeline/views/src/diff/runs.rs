//! Compares two runs: parameters, stages with the reasons of their differences, and results.

use super::config::{ConfigChange, map_changes};
use super::metrics::{MetricChange, metric_changes};
use super::reasons::{ChangedStage, Producers, reasons};
use crate::status::{is_live, state};
use schemars::JsonSchema;
use serde::Serialize;
use trainyard_core::{Clock, Result, RunId, StageKey};
use trainyard_engine::fold::{RunView, StageStatus, StageView};
use trainyard_store::Store;

/// Differences of two runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunsDiff {
    /// First run.
    pub a: RunSide,
    /// Second run.
    pub b: RunSide,
    /// Whether both names mean the same run.
    pub is_same: bool,
    /// Differing parameters.
    pub params: Vec<ConfigChange>,
    /// Stages that only A has.
    pub only_a: Vec<StageKey>,
    /// Stages that only B has.
    pub only_b: Vec<StageKey>,
    /// Stages that both runs published under one digest and generation.
    pub equal: Vec<StageKey>,
    /// Stages of both that differ, in the order of A's plan, with the reasons.
    pub changed: Vec<ChangedStage>,
    /// Results of the stages of both, in the order of A's plan.
    pub results: Vec<StageResult>,
}

/// Compared run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunSide {
    /// Run id.
    pub run: RunId,
    /// Name of the workflow.
    pub workflow: String,
    /// `running`, `succeeded`, `failed`, `cancelled`, or `unfinished`.
    pub status: String,
    /// Seconds from creation to end or last heartbeat.
    pub seconds: f64,
}

/// Results of a stage in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StageResult {
    /// Stage key.
    pub stage: StageKey,
    /// Status in A.
    pub status_a: String,
    /// Status in B.
    pub status_b: String,
    /// Seconds of the stage in A, without those of waiting for a machine; null if it has not run or not ended.
    pub seconds_a: Option<f64>,
    /// Seconds of the stage in B.
    pub seconds_b: Option<f64>,
    /// Metrics, equal ones too, the main metric first.
    pub metrics: Vec<MetricChange>,
}

/// Compares two runs. Reads the manifests of stages that differ, and no artifacts. Errors: invalid (no such run), those
/// of the store.
pub async fn diff_runs(store: &Store, clock: &dyn Clock, a: &RunId, b: &RunId) -> Result<RunsDiff> {
    let (view_a, view_b) = (crate::find::view(store, a).await?, crate::find::view(store, b).await?);
    let (made_a, made_b) = (Producers::of(&view_a), Producers::of(&view_b));
    let (live_a, live_b) = (is_live(&view_a, clock), is_live(&view_b, clock));
    let mut diff = RunsDiff {
        a: side(a, &view_a, clock),
        b: side(b, &view_b, clock),
        is_same: a == b,
        params: map_changes(&view_a.params, &view_b.params),
        only_a: missing(&view_b, &view_a),
        only_b: missing(&view_a, &view_b),
        equal: Vec::new(),
        changed: Vec::new(),
        results: Vec::new(),
    };
    for in_a in &view_a.stages {
        let Some(in_b) = view_b.stage(in_a.key()).filter(|in_b| !is_fan_out(in_a) || !is_fan_out(in_b)) else {
            continue;
        };
        let reasons = reasons(store, (in_a, &made_a), (in_b, &made_b)).await?;
        match reasons.is_empty() {
            false => diff.changed.push(ChangedStage { stage: in_a.key().clone(), reasons }),
            true if in_a.digest.is_some() && in_a.generation.is_some() => diff.equal.push(in_a.key().clone()),
            true => {}
        }
        diff.results.push(result((in_a, live_a), (in_b, live_b)));
    }
    Ok(diff)
}

/// Returns whether a stage only stands for its instances, which follow it.
fn is_fan_out(stage: &StageView) -> bool {
    stage.status == StageStatus::Expanded
}

/// Returns the stages that `from` lacks.
fn missing(from: &RunView, of: &RunView) -> Vec<StageKey> {
    of.stages.iter().map(StageView::key).filter(|key| from.stage(key).is_none()).cloned().collect()
}

fn side(run: &RunId, view: &RunView, clock: &dyn Clock) -> RunSide {
    let totals = view.totals();
    RunSide {
        run: run.clone(),
        workflow: view.workflow.clone(),
        status: state(view, clock).to_string(),
        seconds: (totals.until - totals.created) as f64 / 1_000.0,
    }
}

fn result((a, live_a): (&StageView, bool), (b, live_b): (&StageView, bool)) -> StageResult {
    let main = a.main_metric.as_deref().or(b.main_metric.as_deref());
    StageResult {
        stage: a.key().clone(),
        status_a: a.shown_status(live_a).to_string(),
        status_b: b.shown_status(live_b).to_string(),
        seconds_a: a.seconds(),
        seconds_b: b.seconds(),
        metrics: metric_changes(&a.metrics, &b.metrics, main),
    }
}
