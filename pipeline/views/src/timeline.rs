//! Lists the intervals in which the attempts of a run held a resource pool, and those in which they waited for the
//! machine.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{AttemptNumber, StageKey};
use trainyard_engine::fold::{AttemptView, RunView};

/// Intervals of a run's attempts, by resource pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TimelineView {
    /// Start of the run, in Unix milliseconds.
    pub from: i64,
    /// End of the run, or the time of the last record, in Unix milliseconds.
    pub until: i64,
    /// Pools with their intervals, by name.
    pub pools: BTreeMap<String, Vec<AttemptInterval>>,
}

/// Interval of one attempt.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AttemptInterval {
    /// Stage of the attempt.
    pub stage: StageKey,
    /// Attempt number.
    pub attempt: AttemptNumber,
    /// Start, in Unix milliseconds.
    pub started: i64,
    /// End, in Unix milliseconds; that of the timeline if the attempt runs. Never before the start.
    pub ended: i64,
    /// Times at which the attempt had no machine yet, in order, between its start and its end.
    pub waits: Vec<WaitInterval>,
    /// `succeeded`, `failed`, …; null while the attempt runs.
    pub outcome: Option<String>,
}

/// Interval in which an attempt waited for the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WaitInterval {
    /// Start, in Unix milliseconds.
    pub from: i64,
    /// End, in Unix milliseconds; that of the attempt if it still waits.
    pub until: i64,
    /// Reason, in the executor's wording.
    pub why: String,
}

impl AttemptInterval {
    /// Returns the intervals in which the attempt held the machine, each as start and end in Unix milliseconds. An
    /// attempt without waits has one, which is empty if it has just started.
    pub fn held(&self) -> Vec<(i64, i64)> {
        let starts = std::iter::once(self.started).chain(self.waits.iter().map(|wait| wait.until));
        let ends = self.waits.iter().map(|wait| wait.from).chain(std::iter::once(self.ended));
        starts.zip(ends).filter(|(from, until)| from < until || self.waits.is_empty()).collect()
    }
    /// Returns the milliseconds for which the attempt waited.
    pub fn waited(&self) -> i64 {
        self.waits.iter().map(|wait| wait.until - wait.from).sum()
    }
}

impl TimelineView {
    /// Lists the attempts of a run, in each pool by start, then in plan order.
    pub fn of(view: &RunView) -> Self {
        let until = view.finished.map_or(view.writer.last_seen, |(at, _)| at);
        let mut pools: BTreeMap<String, Vec<AttemptInterval>> = BTreeMap::new();
        for (stage, attempt) in view.stages.iter().flat_map(|s| s.attempts.iter().map(move |a| (s, a))) {
            let ended = attempt.ended.unwrap_or(until).max(attempt.started);
            pools.entry(attempt.pool.clone()).or_default().push(AttemptInterval {
                stage: stage.key().clone(),
                attempt: attempt.number,
                started: attempt.started,
                ended,
                waits: waits(attempt, ended),
                outcome: attempt.outcome.map(outcome_name),
            });
        }
        pools.values_mut().for_each(|intervals| intervals.sort_by_key(|interval| interval.started));
        Self { from: view.created, until, pools }
    }
}

/// Returns the waits of an attempt that ended at some time, or that runs, without those that took no time.
fn waits(attempt: &AttemptView, ended: i64) -> Vec<WaitInterval> {
    let mut waits = Vec::new();
    // A clock that was set back gives no overlap.
    let mut first = attempt.started;
    for wait in &attempt.waits {
        let from = wait.from.clamp(first, ended);
        let until = wait.until.unwrap_or(ended).clamp(from, ended);
        first = until;
        if from < until {
            waits.push(WaitInterval { from, until, why: wait.why.clone() });
        }
    }
    waits
}

/// Returns the lower-case name of an outcome.
pub fn outcome_name(outcome: AttemptOutcome) -> String {
    format!("{outcome:?}").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fold, started};
    use trainyard_core::event::Event;

    fn ended(stage: &str, attempt: u32, outcome: AttemptOutcome) -> Event {
        Event::AttemptEnded { stage: StageKey(stage.into()), attempt, outcome, error: None }
    }
    fn timeline(events: Vec<(i64, Event)>) -> TimelineView {
        TimelineView::of(&fold(events))
    }

    #[test]
    fn attempts_are_listed_by_pool_and_start() {
        let timeline = timeline(vec![
            (10, started("a", 1, "gpu")),
            (20, started("b", 1, "cpu")),
            (30, ended("a", 1, AttemptOutcome::Failed)),
            (40, started("c", 1, "gpu")),
            (50, started("a", 2, "gpu")),
            (60, Event::Heartbeat {}),
        ]);
        let shown: Vec<_> = timeline
            .pools
            .iter()
            .flat_map(|(pool, list)| list.iter().map(move |i| (pool.as_str(), i)))
            .map(|(pool, i)| (pool, i.stage.0.as_str(), i.attempt, i.started, i.ended, i.outcome.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                ("cpu", "b", 1, 20, 60, None),
                ("gpu", "a", 1, 10, 30, Some("failed")),
                ("gpu", "c", 1, 40, 60, None),
                ("gpu", "a", 2, 50, 60, None),
            ]
        );
        assert_eq!(timeline.until, 60);
    }

    #[test]
    fn waits_are_no_part_of_what_an_attempt_held() {
        let stage = StageKey("rl".into());
        let waiting = |why: &str| Event::AttemptWaiting { stage: stage.clone(), attempt: 1, why: why.into() };
        let timeline = timeline(vec![
            (10, started("rl", 1, "gpu")),
            (12, waiting("held by run 7")),
            (20, Event::AttemptWorking { stage: stage.clone(), attempt: 1 }),
            (30, waiting("preempted")),
            (35, Event::Heartbeat {}),
        ]);
        let rl = &timeline.pools["gpu"][0];
        let waits: Vec<_> = rl.waits.iter().map(|wait| (wait.from, wait.until, wait.why.as_str())).collect();
        assert_eq!(waits, [(12, 20, "held by run 7"), (30, 35, "preempted")], "the second one is open");
        assert_eq!((rl.held(), rl.waited()), (vec![(10, 12), (20, 30)], 13));
    }

    #[test]
    fn attempt_without_waits_holds_the_pool_all_the_time() {
        let timeline = timeline(vec![(10, started("a", 1, "cpu")), (14, ended("a", 1, AttemptOutcome::Succeeded))]);
        let a = &timeline.pools["cpu"][0];
        assert_eq!((a.held(), a.waited()), (vec![(10, 14)], 0));
    }

    #[test]
    fn clock_set_back_gives_no_negative_interval() {
        let timeline = timeline(vec![(10, started("a", 1, "cpu")), (4, ended("a", 1, AttemptOutcome::Succeeded))]);
        assert_eq!((timeline.pools["cpu"][0].started, timeline.pools["cpu"][0].ended), (10, 10));
    }
}
