//! Messages to pages: the texts of a run and of its changed stages, as small JSON.

use crate::progress::ProgressText;
use crate::text;
use serde::Serialize;
use std::borrow::Cow;
use trainyard_views::live::{LiveRun, LiveSnapshot, LiveStage};

/// Maximum characters of a reason or an error.
const MAX_REASON: usize = 300;

/// Texts of a run's tiles.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LiveTexts {
    /// Displayed status.
    pub status: String,
    /// Seconds since the creation of the run, or until its end.
    pub seconds: f64,
    /// Stages that are over, as in `3 of 7`.
    pub done: String,
    /// Running stage.
    pub stage: String,
    /// Progress of that stage.
    #[serde(flatten)]
    pub progress: ProgressText,
}

impl LiveTexts {
    /// Describes a run.
    pub fn of(run: &LiveRun) -> Self {
        let current = run.current();
        #[expect(clippy::cast_precision_loss, reason = "a time is shown")]
        let seconds = run.elapsed_millis as f64 / 1_000.0;
        Self {
            status: run.status.to_string(),
            seconds,
            done: format!("{} of {}", run.over, run.all),
            stage: current.map(|stage| text::cut(&stage.stage, 120).0.into_owned()).unwrap_or_default(),
            progress: current.and_then(|stage| stage.progress.as_ref()).map(ProgressText::of).unwrap_or_default(),
        }
    }
}

#[derive(Serialize)]
struct Message<'a> {
    version: u64,
    over: bool,
    symbol: &'static str,
    run: LiveTexts,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
    stages: Vec<StageMessage<'a>>,
    /// Changed stages that are left out; the page reads its table again.
    left_out: usize,
    /// Milliseconds between two reads of a section.
    refresh: usize,
}

#[derive(Serialize)]
struct StageMessage<'a> {
    stage: Cow<'a, str>,
    status: &'a str,
    symbol: &'static str,
    attempts: usize,
    time: String,
    why: String,
    error: String,
    #[serde(flatten)]
    progress: ProgressText,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<u32>,
}

/// Returns the message with the stages that changed after a version. `refresh`: milliseconds between two reads of a
/// section by the page.
pub fn message(snapshot: &LiveSnapshot, after: u64, refresh: usize) -> String {
    let (stages, left_out) = snapshot.since(after);
    let message = Message {
        version: snapshot.version,
        over: snapshot.run.is_over,
        symbol: text::status_symbol(snapshot.run.status),
        run: LiveTexts::of(&snapshot.run),
        problem: snapshot.problem.as_deref(),
        stages: stages.into_iter().map(stage).collect(),
        left_out,
        refresh,
    };
    // Strings and finite numbers always have a JSON form.
    serde_json::to_string(&message).unwrap_or_default()
}

fn stage(stage: &LiveStage) -> StageMessage<'_> {
    let short = |reason: &Option<String>| {
        reason.as_deref().map(|reason| text::cut(reason, MAX_REASON).0.into_owned()).unwrap_or_default()
    };
    StageMessage {
        stage: text::visible(&stage.stage),
        status: stage.status,
        symbol: text::status_symbol(stage.status),
        attempts: stage.attempts,
        time: stage.seconds.map(text::seconds).unwrap_or_default(),
        why: short(&stage.why),
        error: short(&stage.error),
        progress: stage.progress.as_ref().map(ProgressText::of).unwrap_or_default(),
        log: stage.log,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn messages_have_the_changed_stages_only() {
        let stage = |name: &str, status| LiveStage { stage: name.into(), status, ..LiveStage::default() };
        let run = |stages| LiveRun { status: "running", elapsed_millis: 2_500, all: 2, stages, ..LiveRun::default() };
        let first = LiveSnapshot::default().next(run(vec![stage("a", "running"), stage("b", "pending")]));
        let mut failed = stage("a", "failed");
        failed.error = Some("\u{1b}[31mtoo bad".into());
        let second = first.next(run(vec![failed, stage("b", "pending")]));
        let read: Value = serde_json::from_str(&message(&second, 1, 2_000)).unwrap();
        assert_eq!(read["stages"].as_array().unwrap().len(), 1);
        assert_eq!(read["stages"][0]["error"], "\\u{1b}[31mtoo bad");
        assert_eq!((&read["version"], &read["run"]["seconds"]), (&json!(2), &json!(2.5)));
        assert_eq!((&read["run"]["done"], &read["symbol"]), (&json!("0 of 2"), &json!("▶")));
        let all: Value = serde_json::from_str(&message(&second, 0, 2_000)).unwrap();
        assert_eq!(all["stages"].as_array().unwrap().len(), 2);
    }
}
