//! Explains the gaps of a timeline: why a pool ran nothing. The reasons are the stage that ended the gap and the stages
//! or the machine for which it waited.

use crate::timeline::{AttemptInterval, TimelineView, WaitInterval};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use trainyard_core::StageKey;
use trainyard_engine::fold::{RunView, StageView};
use trainyard_engine::pool::IN_PROCESS;

/// Maximum number of gaps of a pool: the longest ones.
const MAX_GAPS: usize = 50;
/// Share of the timeline, as its inverse, below which a gap is not listed.
const MIN_SHARE: i64 = 200;
/// Stages named in one reason.
const NAMED: usize = 3;

/// Interval in which a pool ran nothing.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PoolGap {
    /// Start, in Unix milliseconds.
    pub from: i64,
    /// End, in Unix milliseconds.
    pub until: i64,
    /// Stage whose start ended the gap; null if nothing followed.
    pub next: Option<StageKey>,
    /// Reason.
    pub why: String,
}

/// Returns the gaps of each pool by start, those that are short left out.
pub fn gaps(view: &RunView, timeline: &TimelineView) -> BTreeMap<String, Vec<PoolGap>> {
    let pools = timeline.pools.iter().filter(|(pool, _)| *pool != IN_PROCESS);
    let found = pools.map(|(pool, intervals)| {
        let mut gaps = gaps_of(view, timeline, intervals);
        gaps.sort_by_key(|gap| gap.from - gap.until);
        gaps.truncate(MAX_GAPS);
        gaps.sort_by_key(|gap| gap.from);
        (pool.clone(), gaps)
    });
    found.filter(|(_, gaps)| !gaps.is_empty()).collect()
}

fn gaps_of(view: &RunView, timeline: &TimelineView, intervals: &[AttemptInterval]) -> Vec<PoolGap> {
    let shortest = ((timeline.until - timeline.from) / MIN_SHARE).max(1);
    let mut gaps = Vec::new();
    let mut free_since = timeline.from;
    let mut held: Vec<(i64, i64, &AttemptInterval)> =
        intervals.iter().flat_map(|of| of.held().into_iter().map(move |(from, until)| (from, until, of))).collect();
    held.sort_by_key(|(from, ..)| *from);
    for (from, until, interval) in held {
        let wait = interval.waits.iter().find(|wait| wait.until == from);
        gaps.extend(gaps_before(view, interval, wait, (free_since, from)));
        free_since = free_since.max(until);
    }
    let last = intervals.iter().filter_map(|interval| Some((interval, interval.waits.last()?)));
    if let Some((interval, wait)) = last.max_by_key(|(_, wait)| wait.until).filter(|(_, wait)| wait.until > free_since)
    {
        gaps.extend(gaps_before(view, interval, Some(wait), (free_since, wait.until)));
        free_since = wait.until;
    }
    let why = last_reason(view);
    gaps.push(PoolGap { from: free_since, until: timeline.until, next: None, why });
    gaps.retain(|gap| gap.until - gap.from >= shortest);
    gaps
}

/// Returns the gap until an attempt starts to work or ends, in two parts if it waited for the machine in it.
fn gaps_before(
    view: &RunView,
    interval: &AttemptInterval,
    wait: Option<&WaitInterval>,
    (from, until): (i64, i64),
) -> Vec<PoolGap> {
    let gap = |from, until, why| PoolGap { from, until, next: Some(interval.stage.clone()), why };
    let Some(wait) = wait else { return vec![gap(from, until, reason(view, interval, from))] };
    let waits_since = wait.from.clamp(from, until.max(from));
    let why = format!("{} waited for the machine: {}", interval.stage, wait.why);
    vec![gap(from, waits_since, reason(view, interval, from)), gap(waits_since, until, why)]
}

/// Returns why the pool was free until this attempt started.
fn reason(view: &RunView, interval: &AttemptInterval, free_since: i64) -> String {
    let name = &interval.stage.0;
    if interval.attempt > 1 {
        return format!("{name} waited before attempt {}", interval.attempt);
    }
    let Some(stage) = view.stage(&interval.stage) else { return format!("until {name} started") };
    let needed = stage.after.iter().filter_map(|key| view.stage(key));
    let mut late: Vec<&StageView> = needed.filter(|needed| needed.ended.is_some_and(|at| at > free_since)).collect();
    late.sort_by_key(|needed| std::cmp::Reverse(needed.ended));
    if late.is_empty() {
        return format!("{name} was ready, and the run had not started it yet");
    }
    format!("{name} waited for {}", names(&late))
}

/// Returns why nothing follows in the pool.
fn last_reason(view: &RunView) -> String {
    if view.finished.is_some() {
        return "no later stage used the pool".to_string();
    }
    let open: Vec<&StageView> = view.stages.iter().filter(|stage| !stage.status.is_final()).collect();
    if open.is_empty() {
        return "all stages are over".to_string();
    }
    format!("open: {}", names(&open))
}

/// Formats stages with the pools of their last attempts, as in `data (pool cpu) and 2 more`.
fn names(stages: &[&StageView]) -> String {
    let name = |stage: &&StageView| match stage.attempts.last() {
        Some(attempt) if attempt.pool != IN_PROCESS => format!("{} (pool {})", stage.key(), attempt.pool),
        Some(_) | None => stage.key().to_string(),
    };
    let shown: Vec<String> = stages.iter().take(NAMED).map(name).collect();
    match stages.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, fold, key, started};
    use trainyard_core::event::{AttemptOutcome, Event, RunOutcome};

    fn ended(stage: &str, attempt: u32) -> Event {
        Event::AttemptEnded { stage: key(stage), attempt, outcome: AttemptOutcome::Failed, error: None }
    }
    fn served(stage: &str) -> Event {
        Event::Served { stage: key(stage), beside: key("x") }
    }

    #[test]
    fn wait_for_the_machine_is_a_gap() {
        let stage = key("rl");
        let why = "slots of this machine, held by run 7".to_string();
        let view = fold([
            (0, started("rl", 1, "gpu")),
            (5, Event::AttemptWaiting { stage: stage.clone(), attempt: 1, why: why.clone() }),
            (27_000, Event::AttemptWorking { stage: stage.clone(), attempt: 1 }),
            (32_000, ended("rl", 1)),
            (33_000, started("rl", 2, "gpu")),
            (33_000, Event::AttemptWaiting { stage, attempt: 2, why }),
            (40_000, Event::Heartbeat {}),
        ]);
        let found = gaps(&view, &TimelineView::of(&view));
        let shown: Vec<(i64, i64, &str)> =
            found["gpu"].iter().map(|gap| (gap.from, gap.until, gap.why.as_str())).collect();
        let waited = "rl waited for the machine: slots of this machine, held by run 7";
        assert_eq!(
            shown,
            [(5, 27_000, waited), (32_000, 33_000, "rl waited before attempt 2"), (33_000, 40_000, waited)],
            "the second one lasts until the end"
        );
    }

    #[test]
    fn gaps_name_the_stages_that_were_waited_for() {
        let view = fold([
            (0, created(&[("data", &[]), ("rl", &["data"]), ("end", &[])])),
            (0, started("data", 1, "cpu")),
            (4_000, ended("data", 1)),
            (4_000, served("data")),
            (4_000, started("rl", 1, "gpu")),
            (6_000, ended("rl", 1)),
            (8_000, started("rl", 2, "gpu")),
            (9_000, ended("rl", 2)),
            (9_000, served("rl")),
            (9_500, started("end", 1, "gpu")),
            (9_990, ended("end", 1)),
            (10_000, Event::RunFinished { outcome: RunOutcome::Succeeded }),
        ]);
        let found = gaps(&view, &TimelineView::of(&view));
        let shown: Vec<(i64, i64, &str)> =
            found["gpu"].iter().map(|gap| (gap.from, gap.until, gap.why.as_str())).collect();
        assert_eq!(
            shown,
            [
                (0, 4_000, "rl waited for data (pool cpu)"),
                (6_000, 8_000, "rl waited before attempt 2"),
                (9_000, 9_500, "end was ready, and the run had not started it yet"),
            ],
            "the last 10 ms are too short"
        );
        assert_eq!(found["cpu"][0].why, "no later stage used the pool");
    }
}
