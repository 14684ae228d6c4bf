//! Formats runs as text and JSON: one line in a list, or a page with every stage.

use crate::output::human::{table, with_causes};
use crate::output::metrics::{named, row_text};
use crate::output::progress::progress_text;
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use trainyard_core::event::{CheckResult, RunOutcome};
use trainyard_core::metric::qualified_name;
use trainyard_core::progress::ProgressRecord;
use trainyard_core::units::{format_duration, format_time};
use trainyard_core::{Clock, Error, Result, RunId, StageKey};
use trainyard_engine::fold::{RunView, StageStatus, StageView};
use trainyard_runtime::resume::{WriterState, writer_state};
use trainyard_runtime::summary::LoadedSummary;

/// A run in a list.
#[derive(Debug, Serialize)]
pub struct RunSummaryRow {
    run: String,
    status: &'static str,
    /// Reason why the journal cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// `None` if the journal cannot be read, since zeros would be false.
    #[serde(flatten)]
    journal: Option<JournalSummary>,
}

/// Content of a run's journal.
#[derive(Debug, Serialize)]
struct JournalSummary {
    workflow: String,
    /// Time of creation in RFC 3339, UTC.
    created: String,
    seconds: f64,
    stages: usize,
    done: usize,
    hits: usize,
    failed: usize,
}

impl RunSummaryRow {
    pub const HEADER: [&str; 7] = ["run", "workflow", "status", "created (UTC)", "took", "stages", "hits"];

    pub fn new(run: &RunId, known: &LoadedSummary, clock: &dyn Clock) -> Self {
        let (status, totals) = match known {
            LoadedSummary::Totals(totals) => (word(totals.outcome), Cow::Borrowed(totals)),
            LoadedSummary::View(view) => (state(view, clock), Cow::Owned(view.totals())),
        };
        let summary = JournalSummary {
            workflow: totals.workflow.clone(),
            created: format_time(totals.created),
            seconds: millis(totals.until - totals.created).as_secs_f64(),
            stages: totals.all(),
            done: totals.of(StageStatus::Done),
            hits: totals.of(StageStatus::Hit),
            failed: totals.of(StageStatus::Failed),
        };
        Self { run: run.0.clone(), status, why: None, journal: Some(summary) }
    }
    /// Creates the row of a run whose journal is damaged, or was written by a newer version.
    pub fn damaged(run: &RunId, error: &Error) -> Self {
        Self { run: run.0.clone(), status: DAMAGED, why: Some(error.to_string()), journal: None }
    }
    pub fn is_damaged(&self) -> bool {
        self.status == DAMAGED
    }
    pub fn cells(&self) -> Vec<String> {
        let [workflow, created, took, stages, hits] =
            self.journal.as_ref().map(JournalSummary::cells).unwrap_or_default();
        vec![self.run.clone(), workflow, self.status.to_string(), created, took, stages, hits]
    }
}

impl JournalSummary {
    fn cells(&self) -> [String; 5] {
        let took = format_duration(Duration::from_secs_f64(self.seconds));
        // The time is cut to seconds; the header names the zone.
        let created = self.created.get(..19).unwrap_or_default().replace('T', " ");
        [self.workflow.clone(), created, took, self.stages.to_string(), self.hits.to_string()]
    }
}

/// Status of a run whose journal cannot be read.
const DAMAGED: &str = "damaged";

/// Returns the displayed status of a run. An unfinished run is `running` while its writer is alive.
pub fn state(view: &RunView, clock: &dyn Clock) -> &'static str {
    match (view.finished, writer_state(&view.writer, clock)) {
        (None, WriterState::Alive) => "running",
        _ => status(view),
    }
}

/// Returns `succeeded`, `failed`, `cancelled` (the names in `on` of a notification), or `unfinished`.
pub fn status(view: &RunView) -> &'static str {
    word(view.finished.map(|(_, outcome)| outcome))
}

fn word(outcome: Option<RunOutcome>) -> &'static str {
    match outcome {
        Some(RunOutcome::Succeeded) => "succeeded",
        Some(RunOutcome::Failed) => "failed",
        Some(RunOutcome::Cancelled) => "cancelled",
        None => "unfinished",
    }
}

fn elapsed(view: &RunView) -> Duration {
    let end = view.finished.map_or(view.writer.last_seen, |(at, _)| at);
    millis(end - view.created)
}

fn millis(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Last progress of running stages.
pub type StageProgress = BTreeMap<StageKey, ProgressRecord>;

/// Returns the complete view of a run as JSON, with the run's id, its displayed status, and the progress of its running
/// stages.
pub fn json(run: &RunId, view: &RunView, progress: &StageProgress, clock: &dyn Clock) -> Result<Value> {
    let mut value = serde_json::to_value(view).map_err(|e| Error::bug(format!("the run has no JSON form: {e}")))?;
    value["run"] = json!(run.0);
    value["status"] = json!(state(view, clock));
    for (at, stage) in view.stages.iter().enumerate() {
        if let Some(progress) = progress.get(stage.key()) {
            value["stages"][at]["progress"] = json!(progress);
        }
    }
    Ok(value)
}

/// Formats the page of a run.
pub fn text(run: &RunId, view: &RunView, progress: &StageProgress, clock: &dyn Clock) -> String {
    let state = state(view, clock);
    let mut text = format!("run {run} of {}: {state}, {}\n", view.workflow, format_duration(elapsed(view)));
    let _ = writeln!(text, "file {}", view.source);
    for (name, value) in &view.params {
        let _ = writeln!(text, "  {name} = {value}");
    }
    let now = clock.unix_millis();
    let mut header = vec!["stage", "kind", "status", "took", "waited", "attempts", "outputs", "main metric"];
    let mut rows: Vec<Vec<String>> = view.stages.iter().map(|stage| stage_row(stage, now)).collect();
    let waited = header.iter().position(|name| *name == "waited").filter(|at| rows.iter().all(|r| r[*at].is_empty()));
    if let Some(column) = waited {
        header.remove(column);
        rows.iter_mut().for_each(|row| drop(row.remove(column)));
    }
    let _ = write!(text, "\n{}", table(&header, &rows));
    for stage in view.stages.iter().filter(|s| s.status != StageStatus::Done && s.status != StageStatus::Hit) {
        if let Some(line) = state_text(stage, progress.get(stage.key())) {
            let _ = write!(text, "\n{}: {line}", stage.stage.0);
        }
    }
    for stage in &view.stages {
        // The error of the stage, shown above, already names its failed checks.
        let is_shown = |c: &&CheckResult| c.role.is_some() || (!c.passed && (!c.gates || stage.error.is_none()));
        for check in stage.checks.iter().filter(is_shown) {
            let value = check.value.map_or_else(|| "missing".to_string(), |v| format!("{v:.4}"));
            let grade = match (check.passed, check.gates) {
                (true, _) => "holds",
                (false, true) => "failed",
                (false, false) => "warns",
            };
            let role = check.role.as_ref().map(|role| format!("{role} ")).unwrap_or_default();
            let _ = write!(
                text,
                "\n{}: {role}check {grade}: {} is {value}{}",
                stage.stage.0,
                qualified_name(&check.metric, check.of),
                bounds(check.min, check.max)
            );
        }
    }
    text
}

fn bounds(min: Option<f64>, max: Option<f64>) -> String {
    match (min, max) {
        (Some(a), Some(b)) => format!(", must be from {a} to {b}"),
        (Some(a), None) => format!(", must be at least {a}"),
        (None, Some(b)) => format!(", must be at most {b}"),
        (None, None) => String::new(),
    }
}

/// Formats why a stage has not ended well: its error, its progress, or for what it waits.
pub fn state_text(stage: &StageView, progress: Option<&ProgressRecord>) -> Option<String> {
    if let Some(error) = &stage.error {
        return Some(with_causes(error));
    }
    match (progress, &stage.why) {
        (Some(progress), _) => Some(progress_text(progress)),
        (None, Some(why)) if stage.status == StageStatus::Waiting => Some(format!("waiting: {why}")),
        (None, why) => why.clone(),
    }
}

fn stage_row(stage: &StageView, now: i64) -> Vec<String> {
    let waited = stage.waited + stage.waiting_since.map_or(0, |since| (now - since).max(0));
    let took = match (stage.started, stage.ended) {
        (Some(a), Some(b)) => format_duration(millis(b - a - waited)),
        _ => String::new(),
    };
    let waited = if waited > 0 { format_duration(millis(waited)) } else { String::new() };
    let outputs: Vec<String> =
        stage.outputs.iter().map(|(n, o)| o.rows.map_or_else(|| n.clone(), |r| format!("{n} ({r} rows)"))).collect();
    let main = stage.main_metric.as_ref().and_then(|name| named(&stage.metrics, name));
    let metric = main.or_else(|| stage.comparisons.first().map(row_text));
    vec![
        stage.stage.0.to_string(),
        stage.kind.clone(),
        stage.status.name().into(),
        took,
        waited,
        stage.attempts.len().to_string(),
        outputs.join(", "),
        metric.unwrap_or_default(),
    ]
}

/// Formats the closing line: `run … succeeded in 3m12s: 12 stages, 10 done, 2 hits`.
pub fn closing_line(run: &RunId, view: &RunView) -> String {
    let counts = view.counts();
    let parts: Vec<String> = counts.iter().map(|(status, n)| format!("{n} {}", status.name())).collect();
    format!(
        "run {run} {} in {}: {} stages, {}",
        status(view),
        format_duration(elapsed(view)),
        view.stages.len(),
        parts.join(", ")
    )
}
