//! How a run looks: one line in a list, a page with every stage.

use super::progress::row_text;
use crate::output::human::table;
use serde::Serialize;
use serde_json::json;
use std::fmt::Write as _;
use std::time::Duration;
use trainyard_core::event::RunOutcome;
use trainyard_core::ids::civil_from_unix;
use trainyard_core::metric::address;
use trainyard_core::units::format_duration;
use trainyard_core::{Error, Result, RunId};
use trainyard_engine::fold::{RunView, StageStatus, StageView};

/// A run in a list.
#[derive(Debug, Serialize)]
pub struct RunSummaryRow {
    run: String,
    status: &'static str,
    /// Why its journal cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Nothing if its journal cannot be read: zeros would be lies.
    #[serde(flatten)]
    told: Option<Told>,
}

/// What a journal tells of its run.
#[derive(Debug, Serialize)]
struct Told {
    workflow: String,
    created: String,
    seconds: f64,
    stages: usize,
    done: usize,
    hits: usize,
    failed: usize,
}

impl RunSummaryRow {
    pub const HEADER: [&str; 7] = ["run", "workflow", "status", "created (UTC)", "took", "stages", "hits"];

    pub fn new(run: &RunId, view: &RunView) -> Self {
        let count = |status: StageStatus| view.stages.iter().filter(|s| s.status == status).count();
        let told = Told {
            workflow: view.workflow.clone(),
            created: time(view.created),
            seconds: elapsed(view).as_secs_f64(),
            stages: view.stages.len(),
            done: count(StageStatus::Done),
            hits: count(StageStatus::Hit),
            failed: count(StageStatus::Failed),
        };
        Self { run: run.0.clone(), status: status(view), why: None, told: Some(told) }
    }
    /// A run whose journal is damaged, or newer than this program.
    pub fn damaged(run: &RunId, error: &Error) -> Self {
        Self { run: run.0.clone(), status: DAMAGED, why: Some(error.to_string()), told: None }
    }
    pub fn is_damaged(&self) -> bool {
        self.status == DAMAGED
    }
    pub fn cells(&self) -> Vec<String> {
        let [workflow, created, took, stages, hits] = self.told.as_ref().map(Told::cells).unwrap_or_default();
        vec![self.run.clone(), workflow, self.status.to_string(), created, took, stages, hits]
    }
}

impl Told {
    fn cells(&self) -> [String; 5] {
        let took = format_duration(Duration::from_secs_f64(self.seconds));
        [self.workflow.clone(), self.created.clone(), took, self.stages.to_string(), self.hits.to_string()]
    }
}

/// The status of a run whose journal cannot be read.
const DAMAGED: &str = "damaged";

/// `succeeded`, `failed`, `cancelled` (the names that `on` of a notification knows), or `unfinished`.
pub fn status(view: &RunView) -> &'static str {
    match view.finished {
        Some((_, RunOutcome::Succeeded)) => "succeeded",
        Some((_, RunOutcome::Failed)) => "failed",
        Some((_, RunOutcome::Cancelled)) => "cancelled",
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

fn time(unix_millis: i64) -> String {
    let (y, mo, d, h, mi, s) = civil_from_unix(unix_millis / 1000);
    format!("{y:04}-{mo:02}-{d:02} {h:02}:{mi:02}:{s:02}")
}

/// The whole view as JSON, with the run's id.
pub fn json(run: &RunId, view: &RunView) -> Result<String> {
    let mut value = serde_json::to_value(view).map_err(|e| Error::bug(format!("no JSON for this run: {e}")))?;
    value["run"] = json!(run.0);
    value["status"] = json!(status(view));
    serde_json::to_string_pretty(&value).map_err(|e| Error::bug(format!("no JSON for this run: {e}")))
}

/// A page for people.
pub fn text(run: &RunId, view: &RunView) -> String {
    let mut text = format!("run {run} of {}: {}, {}\n", view.workflow, status(view), format_duration(elapsed(view)));
    let _ = writeln!(text, "file {}", view.source);
    for (name, value) in &view.params {
        let _ = writeln!(text, "  {name} = {value}");
    }
    let rows: Vec<Vec<String>> = view.stages.iter().map(stage_row).collect();
    let _ =
        write!(text, "\n{}", table(&["stage", "kind", "status", "took", "attempts", "outputs", "main metric"], &rows));
    for stage in view.stages.iter().filter(|s| s.status != StageStatus::Done && s.status != StageStatus::Hit) {
        explain_one(&mut text, stage);
    }
    for stage in &view.stages {
        for check in stage.checks.iter().filter(|c| !c.passed || c.role.is_some()) {
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
                address(&check.metric, check.of),
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

fn explain_one(text: &mut String, stage: &StageView) {
    if let Some(error) = &stage.error {
        let _ = write!(text, "\n{}: {error}", stage.stage.0);
    } else if let Some(why) = &stage.why {
        let _ = write!(text, "\n{}: {why}", stage.stage.0);
    }
}

fn stage_row(stage: &StageView) -> Vec<String> {
    let took = match (stage.started, stage.ended) {
        (Some(a), Some(b)) => format_duration(millis(b - a)),
        _ => String::new(),
    };
    let outputs: Vec<String> =
        stage.outputs.iter().map(|(n, o)| o.rows.map_or_else(|| n.clone(), |r| format!("{n} ({r} rows)"))).collect();
    let compared = || stage.comparisons.first().map(row_text);
    let metric =
        stage.main_metric.as_ref().and_then(|m| stage.metrics.get(m).map(|v| format!("{m} {v:.4}"))).or_else(compared);
    vec![
        stage.stage.0.to_string(),
        stage.kind.clone(),
        stage.status.name().into(),
        took,
        stage.attempts.len().to_string(),
        outputs.join(", "),
        metric.unwrap_or_default(),
    ]
}

/// `run … succeeded in 3m12s: 12 stages, 10 done, 2 hits`.
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
