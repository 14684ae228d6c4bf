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
use trainyard_runtime::summary::LoadedSummary;
use trainyard_views::status::{DAMAGED, is_live, outcome_name, state, status};

/// A run in a list.
#[derive(Debug, Serialize)]
pub struct RunSummaryRow {
    run: String,
    status: &'static str,
    /// Reason why the journal cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
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
    const HEADER: [&str; 7] = ["run", "workflow", "status", "created (UTC)", "took", "stages", "hits"];

    pub fn new(run: &RunId, known: &LoadedSummary, clock: &dyn Clock) -> Self {
        let (status, totals) = match known {
            LoadedSummary::Totals(totals) => (outcome_name(totals.outcome), Cow::Borrowed(totals)),
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
        Self { run: run.0.clone(), status, why: None, tags: Vec::new(), journal: Some(summary) }
    }
    /// Creates the row of a run whose journal is damaged, or was written by a newer version.
    pub fn damaged(run: &RunId, error: &Error) -> Self {
        Self { run: run.0.clone(), status: DAMAGED, why: Some(error.to_string()), tags: Vec::new(), journal: None }
    }
    pub fn with_tags(self, tags: Vec<String>) -> Self {
        Self { tags, ..self }
    }
    pub fn is_damaged(&self) -> bool {
        self.status == DAMAGED
    }
    fn cells(&self) -> Vec<String> {
        let [workflow, created, took, stages, hits] =
            self.journal.as_ref().map(JournalSummary::cells).unwrap_or_default();
        vec![self.run.clone(), workflow, self.status.to_string(), created, took, stages, hits]
    }
}

/// Formats a list of runs. The column `tags` is left out if no run has tags.
pub fn list_table(rows: &[RunSummaryRow]) -> String {
    let mut header = RunSummaryRow::HEADER.to_vec();
    let mut cells: Vec<Vec<String>> = rows.iter().map(RunSummaryRow::cells).collect();
    if rows.iter().any(|row| !row.tags.is_empty()) {
        header.push("tags");
        cells.iter_mut().zip(rows).for_each(|(cells, row)| cells.push(row.tags.join(", ")));
    }
    table(&header, &cells)
}

impl JournalSummary {
    fn cells(&self) -> [String; 5] {
        let took = format_duration(Duration::from_secs_f64(self.seconds));
        // The time is cut to seconds; the header names the zone.
        let created = self.created.get(..19).unwrap_or_default().replace('T', " ");
        [self.workflow.clone(), created, took, self.stages.to_string(), self.hits.to_string()]
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
    let is_live = is_live(view, clock);
    for (at, stage) in view.stages.iter().enumerate() {
        value["stages"][at]["status"] = json!(stage.shown_status(is_live));
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
    let is_live = is_live(view, clock);
    let _ = write!(text, "\n{}", stage_table(view, clock.unix_millis(), is_live));
    if !is_live {
        let _ = write!(text, "\n{}", interrupted(run));
    }
    // The last state of a stage in an interrupted run is outdated.
    let is_shown = |s: &&StageView| s.shown_status(is_live) == s.status.name();
    let is_open = |s: &&StageView| !matches!(s.status, StageStatus::Done | StageStatus::Hit);
    for stage in view.stages.iter().filter(is_open).filter(is_shown) {
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

/// Adds a line with tags below the first line of a run's page.
pub fn with_tags(page: &str, tags: &[String]) -> String {
    let (first, rest) = page.split_once('\n').unwrap_or((page, ""));
    if tags.is_empty() { page.to_string() } else { format!("{first}\ntags {}\n{rest}", tags.join(", ")) }
}

/// Formats the table of a run's stages. Columns that say nothing about any stage are left out.
fn stage_table(view: &RunView, now: i64, is_live: bool) -> String {
    let mut header = vec!["stage", "kind", "status", "took", "waited", "attempts", "main metric", "outputs"];
    let mut rows: Vec<Vec<String>> = view.stages.iter().map(|stage| stage_row(stage, now, is_live)).collect();
    for (name, usual) in [("waited", &[""][..]), ("attempts", &["0", "1"][..])] {
        let column = header.iter().position(|shown| *shown == name);
        let is_usual = |at: &usize| rows.iter().all(|row| usual.contains(&row[*at].as_str()));
        if let Some(column) = column.filter(is_usual) {
            header.remove(column);
            rows.iter_mut().for_each(|row| drop(row.remove(column)));
        }
    }
    table(&header, &rows)
}

/// Says how to continue a run whose writer is gone.
pub fn interrupted(run: &RunId) -> String {
    format!("nothing runs: the writer of this run is gone; `trainyard runs resume {run}` continues it")
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

fn stage_row(stage: &StageView, now: i64, is_live: bool) -> Vec<String> {
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
        stage.shown_status(is_live).into(),
        took,
        waited,
        stage.attempts.len().to_string(),
        metric.unwrap_or_default(),
        outputs.join(", "),
    ]
}

/// Formats the closing line: `run … succeeded in 3m12s: 12 stages, 10 done, 2 hit`, or with `--until`
/// `… : 5 of 7 stages, 5 done, 2 not asked for`.
pub fn closing_line(run: &RunId, view: &RunView) -> String {
    let mut counts = view.counts();
    let selects = !view.selection.until.is_empty() || !view.selection.only.is_empty();
    let succeeded = view.finished.is_some_and(|(_, outcome)| outcome == RunOutcome::Succeeded);
    // A run succeeds without the stages that its command excluded.
    let excluded = if selects && succeeded { counts.remove(&StageStatus::Pending) } else { None };
    let mut parts: Vec<String> = counts.iter().map(|(status, n)| format!("{n} {}", status.name())).collect();
    parts.extend(excluded.map(|n| format!("{n} not asked for")));
    let all = view.stages.len();
    let stages = excluded.map_or_else(|| format!("{all} stages"), |n| format!("{} of {all} stages", all - n));
    format!("run {run} {} in {}: {stages}, {}", status(view), format_duration(elapsed(view)), parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::Digest;
    use trainyard_core::clock::ManualClock;
    use trainyard_core::event::{Event, EventRecord, GrantSummary, PlannedStage, Selection};

    /// Returns the view of a run with the stages `a` and `b`, whose first stage runs, written by an unknown process.
    fn view(until: &[&str], more: Vec<Event>) -> RunView {
        let planned = |name: &str| PlannedStage {
            stage: StageKey(name.into()),
            kind: "noop".into(),
            main_metric: None,
            after: Vec::new(),
        };
        let created = Event::RunCreated {
            format: 1,
            workflow: "w".into(),
            source: "w.yaml".into(),
            plan_digest: Digest::of(b"plan"),
            params: BTreeMap::new(),
            selection: Selection { until: until.iter().map(ToString::to_string).collect(), ..Selection::default() },
            stages: ["a", "b"].map(planned).to_vec(),
        };
        let started = Event::AttemptStarted {
            stage: StageKey("a".into()),
            attempt: 1,
            digest: Digest::of(b"d"),
            pool: "local".into(),
            grant: GrantSummary::default(),
        };
        let mut view = RunView::default();
        for event in [created, Event::WriterOpened { epoch: 1, writer: "gone".into() }, started].into_iter().chain(more)
        {
            view.apply(&EventRecord { at: 1_000, event });
        }
        view
    }

    #[test]
    fn stages_of_a_killed_run_are_interrupted() {
        let (view, run, none) = (view(&[], Vec::new()), RunId("r1".into()), StageProgress::new());
        let page = |seconds: i64| text(&run, &view, &none, &ManualClock::at_millis(1_000 + 1_000 * seconds));
        assert!(page(1).contains("a      noop  running") && !page(1).contains("gone"), "{}", page(1));
        let later = page(86_400);
        assert!(later.contains("a      noop  interrupted") && !later.contains("running"), "{later}");
        assert!(later.ends_with("`trainyard runs resume r1` continues it"), "{later}");
        let value = json(&run, &view, &none, &ManualClock::at_millis(86_400_000)).unwrap();
        assert_eq!((&value["status"], &value["stages"][0]["status"]), (&json!("unfinished"), &json!("interrupted")));
        assert_eq!(value["stages"][1]["status"], "pending");
    }

    #[test]
    fn tags_follow_the_first_line_and_have_a_column() {
        let tags = ["best".to_string(), "paper".to_string()];
        assert_eq!(with_tags("run r1\nfile w", &tags), "run r1\ntags best, paper\nfile w");
        assert_eq!(with_tags("run r1\nfile w", &[]), "run r1\nfile w");
        let row = |id: &str| RunSummaryRow::damaged(&RunId(id.into()), &Error::data("x"));
        let rows = [row("r2").with_tags(tags.to_vec()), row("r1")];
        assert!(list_table(&rows).starts_with("run  workflow  status   created (UTC)  took  stages  hits  tags\n"));
        assert!(list_table(&rows).contains("best, paper"));
        assert!(!list_table(&rows[1..]).contains("tags"));
    }

    #[test]
    fn excluded_stages_are_not_asked_for() {
        let finished = || Event::RunFinished { outcome: RunOutcome::Succeeded };
        let line = |until: &[&str]| closing_line(&RunId("r1".into()), &view(until, vec![finished()]));
        assert_eq!(line(&["a"]), "run r1 succeeded in 0ms: 1 of 2 stages, 1 running, 1 not asked for");
        assert_eq!(line(&[]), "run r1 succeeded in 0ms: 2 stages, 1 pending, 1 running");
    }
}
