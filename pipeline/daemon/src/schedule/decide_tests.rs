//! Tests decisions about ticks that are on time, missed, caught up, overlapping or delayed, and under clocks that jump.

use super::decide::*;
use super::event::{Definition, ScheduleEvent, ScheduleRecord, SkipReason, Tick, TickOutcome};
use super::state::ScheduleState;
use proptest::prelude::*;
use trainyard_core::{Digest, RunId};
use trainyard_spec::Schedule;
use trainyard_spec::schedule::{Catchup, Overlap};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
/// 2026-11-21T00:00:00Z.
const MIDNIGHT: i64 = 1_795_219_200_000;

/// A schedule's log without a store.
struct ScheduleFixture {
    state: ScheduleState,
    seen: Option<i64>,
    runs: u32,
}

impl ScheduleFixture {
    fn new(cron: &str, change: impl FnOnce(&mut Schedule)) -> Self {
        let mut schedule = Schedule::cron(cron, "UTC");
        change(&mut schedule);
        let mut fixture = Self { state: ScheduleState::default(), seen: None, runs: 0 };
        let definition = Definition { schedule, file: "f.yaml".into(), home: String::new(), texts: Digest::of(b"") };
        fixture.record(MIDNIGHT, ScheduleEvent::Defined { definition });
        fixture
    }
    fn record(&mut self, at: i64, event: ScheduleEvent) {
        self.state.apply(&ScheduleRecord { at, by: "test".into(), event });
    }
    /// Makes one pass at this time; returns the decisions as `+<minutes>`, `skip <minutes> <why>`, with `(n)` for
    /// skipped ticks.
    fn look(&mut self, now: i64) -> Vec<String> {
        let decisions = decide("s", &self.state, DecisionTime { now, seen: self.seen });
        self.seen = Some(now);
        decisions.into_iter().map(|decision| self.take(now, decision)).collect()
    }
    fn take(&mut self, now: i64, decision: TickDecision) -> String {
        let minutes = |tick: &Tick| (tick.at - MIDNIGHT) / MINUTE;
        let over = |n: u64| if n == 0 { String::new() } else { format!(" ({n})") };
        match decision {
            TickDecision::Fire { tick, passed_over } => {
                self.runs += 1;
                let run = RunId(format!("r{}", self.runs));
                let text = format!("+{}{}", minutes(&tick), over(passed_over));
                self.record(now, ScheduleEvent::Fired { tick, run, passed_over, backfill: None, listing: None });
                text
            }
            TickDecision::Skip { tick, why, passed_over } => {
                let text = format!("skip {} {why:?}{}", minutes(&tick), over(passed_over));
                self.record(now, ScheduleEvent::Skipped { tick, why, passed_over, backfill: None });
                text
            }
        }
    }
    fn end_all(&mut self, at: i64) {
        for run in self.state.open.iter().map(|open| open.run.clone()).collect::<Vec<_>>() {
            self.record(at, ScheduleEvent::Ended { run, outcome: TickOutcome::Succeeded, why: None });
        }
    }
}

fn nothing() -> Vec<String> {
    Vec::new()
}

#[test]
fn tick_fires_exactly_when_due() {
    let mut fixture = ScheduleFixture::new("0 * * * *", |_| {});
    assert_eq!(fixture.look(MIDNIGHT + 1), nothing(), "a schedule has no tick at the time of its definition");
    assert_eq!(fixture.look(MIDNIGHT + HOUR - 1), nothing());
    assert_eq!(fixture.look(MIDNIGHT + HOUR), ["+60"]);
    assert_eq!(fixture.look(MIDNIGHT + HOUR + 500), nothing());
}

#[test]
fn missed_ticks_follow_the_catchup_rule() {
    // No daemon is running from 0:00 to 9:20.
    let late = MIDNIGHT + 9 * HOUR + 20 * MINUTE;
    let missed = |catchup: Catchup, window: i64| {
        let mut fixture = ScheduleFixture::new("0 * * * *", |s| {
            s.catchup = catchup;
            s.catchup_window_millis = window.cast_unsigned();
        });
        fixture.look(MIDNIGHT + MINUTE);
        let first = fixture.look(late);
        assert_eq!(fixture.look(late + 1_000), nothing(), "{catchup:?}: what was decided stays decided");
        first
    };
    assert_eq!(missed(Catchup::Latest, 24 * HOUR), ["+540 (8)"]);
    assert_eq!(missed(Catchup::Latest, 10 * MINUTE), ["skip 540 Missed (8)"], "too old");
    assert_eq!(missed(Catchup::None, 24 * HOUR), ["skip 540 Missed (8)"]);
    assert_eq!(missed(Catchup::All, 3 * HOUR), ["+420 (6)", "+480", "+540"]);
    assert_eq!(missed(Catchup::All, 10 * MINUTE), ["skip 540 Missed (8)"]);
}

#[test]
fn restart_loses_no_tick_of_the_last_minute() {
    for catchup in [Catchup::None, Catchup::Latest, Catchup::All] {
        let mut fixture = ScheduleFixture::new("0 * * * *", |s| s.catchup = catchup);
        assert_eq!(fixture.look(MIDNIGHT + HOUR + 59_000), ["+60"], "{catchup:?}");
    }
}

#[test]
fn recent_check_sees_every_tick_of_a_fast_schedule() {
    let mut fixture = ScheduleFixture::new("*/10 * * * * *", |s| {
        s.catchup = Catchup::None;
        s.overlap = Overlap::Allow;
    });
    fixture.look(MIDNIGHT + 5_000);
    assert_eq!(fixture.look(MIDNIGHT + 35_000).len(), 3);
    assert_eq!(fixture.look(MIDNIGHT + 200_000).len(), 1, "after a gap only the newest counts as on time");
}

#[test]
fn tick_during_a_run_follows_the_overlap_rule() {
    let during = |overlap: Overlap| {
        let mut fixture = ScheduleFixture::new("0 * * * *", |s| s.overlap = overlap);
        fixture.look(MIDNIGHT + HOUR - MINUTE / 2);
        assert_eq!(fixture.look(MIDNIGHT + HOUR), ["+60"]);
        fixture.look(MIDNIGHT + 2 * HOUR - MINUTE / 2);
        fixture.look(MIDNIGHT + 2 * HOUR)
    };
    assert_eq!(during(Overlap::Skip), ["skip 120 Overlap"]);
    assert_eq!(during(Overlap::Queue), ["+120"]);
    assert_eq!(during(Overlap::Cancel), ["+120"]);
    assert_eq!(during(Overlap::Allow), ["+120"]);
}

#[test]
fn caught_up_ticks_wait_for_each_other() {
    let mut fixture = ScheduleFixture::new("0 * * * *", |s| s.catchup = Catchup::All);
    assert_eq!(fixture.look(MIDNIGHT + 3 * HOUR + 5 * MINUTE), ["+60", "+120", "+180"], "although overlap is skip");
    fixture.end_all(MIDNIGHT + 4 * HOUR - MINUTE);
    fixture.look(MIDNIGHT + 4 * HOUR - MINUTE / 2);
    assert_eq!(fixture.look(MIDNIGHT + 4 * HOUR), ["+240"]);
}

#[test]
fn ticks_during_a_pause_are_ignored() {
    let mut fixture = ScheduleFixture::new("0 * * * *", |s| s.catchup = Catchup::All);
    fixture.record(MIDNIGHT + MINUTE, ScheduleEvent::Paused { why: None });
    assert_eq!(fixture.look(MIDNIGHT + 2 * HOUR), nothing());
    fixture.record(MIDNIGHT + 2 * HOUR + MINUTE, ScheduleEvent::Resumed {});
    assert_eq!(fixture.look(MIDNIGHT + 2 * HOUR + 2 * MINUTE), nothing());
    assert_eq!(fixture.look(MIDNIGHT + 3 * HOUR), ["+180"]);
}

#[test]
fn changed_pattern_resets_missed_ticks_but_changed_text_does_not() {
    let mut fixture = ScheduleFixture::new("0 0 1 1 *", |_| {});
    let definition = |cron: &str, text: &[u8]| Definition {
        schedule: Schedule { catchup: Catchup::All, ..Schedule::cron(cron, "UTC") },
        file: "f.yaml".into(),
        home: String::new(),
        texts: Digest::of(text),
    };
    let noon = MIDNIGHT + 12 * HOUR + MINUTE;
    fixture.record(noon, ScheduleEvent::Defined { definition: definition("0 * * * *", b"1") });
    assert_eq!(fixture.look(noon + MINUTE), nothing(), "no tick before it");
    fixture.record(noon + 3 * HOUR, ScheduleEvent::Defined { definition: definition("0 * * * *", b"2") });
    assert_eq!(fixture.look(noon + 3 * HOUR + MINUTE), ["+780", "+840", "+900"], "what was missed is still missed");
    fixture.record(noon + 3 * HOUR, ScheduleEvent::Removed {});
    assert_eq!(fixture.look(noon + 5 * HOUR), nothing());
}

#[test]
fn clock_jumps_fire_nothing_twice() {
    let mut fixture = ScheduleFixture::new("0 * * * *", |s| s.overlap = Overlap::Allow);
    fixture.look(MIDNIGHT + MINUTE);
    // Six hours forward: ticks were missed, and the newest replaces all of them.
    assert_eq!(fixture.look(MIDNIGHT + 6 * HOUR + MINUTE), ["+360 (5)"]);
    // Back to the true time.
    assert_eq!(fixture.look(MIDNIGHT + 2 * MINUTE), nothing());
    // Ticks that come due for the first time fire, the one that fired ahead of time does not.
    fixture.look(MIDNIGHT + HOUR - MINUTE / 2);
    assert_eq!(fixture.look(MIDNIGHT + HOUR), ["+60"]);
    fixture.look(MIDNIGHT + 6 * HOUR - MINUTE / 2);
    assert_eq!(fixture.look(MIDNIGHT + 6 * HOUR), nothing());
}

#[test]
fn passed_over_ticks_of_a_late_tick_count_as_skipped() {
    let mut fixture = ScheduleFixture::new("0 * * * *", |_| {});
    assert_eq!(fixture.look(MIDNIGHT + 5 * HOUR + HOUR / 2), ["+300 (4)"]);
    assert_eq!((fixture.state.fired, fixture.state.skipped), (1, 4));
}

#[test]
fn tick_whose_delay_is_not_over_is_not_passed_over() {
    let jitter = 600_000;
    let mut fixture = ScheduleFixture::new("* * * * *", |schedule| {
        schedule.jitter_millis = jitter;
        schedule.overlap = Overlap::Allow;
    });
    (1..=60 * 60).for_each(|second| drop(fixture.look(MIDNIGHT + second * 1_000)));
    let schedule = fixture.state.definition.clone().unwrap().schedule;
    let ticks = schedule.pattern().unwrap().between(MIDNIGHT, MIDNIGHT + HOUR, 100);
    let due = ticks.iter().filter(|tick| **tick + delay("s", &schedule, **tick).cast_signed() <= MIDNIGHT + HOUR);
    assert_eq!((fixture.state.fired, fixture.state.skipped), (due.count() as u64, 0));
}

#[test]
fn definition_from_the_future_does_not_stop_a_schedule() {
    let mut fixture = ScheduleFixture::new("0 * * * *", |_| {});
    let definition = fixture.state.definition.clone().unwrap();
    fixture.state.since = MIDNIGHT + 10_000 * HOUR;
    assert_eq!(fixture.state.definition, Some(definition));
    fixture.look(MIDNIGHT + HOUR - MINUTE / 2);
    assert_eq!(fixture.look(MIDNIGHT + HOUR), ["+60"]);
}

#[test]
fn jitter_is_bounded_and_deterministic_per_tick() {
    let schedule = Schedule { jitter_millis: 600_000, ..Schedule::cron("0 * * * *", "UTC") };
    let delays: Vec<u64> = (0..50).map(|i| delay("s", &schedule, MIDNIGHT + i * HOUR)).collect();
    assert!(delays.iter().all(|d| *d < 600_000));
    assert!(delays.iter().collect::<std::collections::BTreeSet<_>>().len() > 40);
    assert_ne!(delay("s", &schedule, MIDNIGHT), delay("t", &schedule, MIDNIGHT));
    let mut fixture = ScheduleFixture::new("0 * * * *", |s| s.jitter_millis = 600_000);
    let due = MIDNIGHT + HOUR + delay("s", &schedule, MIDNIGHT + HOUR).cast_signed();
    assert_eq!(next_due("s", &fixture.state, MIDNIGHT + MINUTE), Some(due));
    fixture.look(due - 1_000);
    assert_eq!(fixture.look(due - 1), nothing());
    assert_eq!(fixture.look(due), ["+60"]);
}

#[test]
fn waiting_ticks_are_limited() {
    let mut fixture = ScheduleFixture::new("* * * * * *", |s| {
        s.overlap = Overlap::Queue;
        s.catchup = Catchup::All;
    });
    fixture.look(MIDNIGHT + 500);
    let first = fixture.look(MIDNIGHT + 2 * HOUR);
    assert_eq!(first.len(), MOST);
    assert_eq!(fixture.look(MIDNIGHT + 2 * HOUR + 1_000), ["skip 120 Full"]);
}

proptest! {
    /// No tick fires twice or before its time, for any jumps of the clock and any times of checks.
    #[test]
    fn every_tick_fires_at_most_once(
        steps in prop::collection::vec((-3 * HOUR..3 * HOUR, any::<bool>(), any::<bool>()), 1..60),
        catchup in prop::sample::select(vec![Catchup::None, Catchup::Latest, Catchup::All]),
        overlap in prop::sample::select(vec![Overlap::Skip, Overlap::Queue, Overlap::Cancel, Overlap::Allow]),
        jitter in prop::sample::select(vec![0_u64, 400_000]),
    ) {
        let mut fixture = ScheduleFixture::new("*/10 * * * *", |s| {
            s.catchup = catchup;
            s.overlap = overlap;
            s.jitter_millis = jitter;
        });
        let (mut now, mut fired) = (MIDNIGHT, std::collections::BTreeSet::new());
        for (by, forgets, ends) in steps {
            now += by;
            if forgets {
                fixture.seen = None;
            }
            let before: Vec<RunId> = fixture.state.open.iter().map(|open| open.run.clone()).collect();
            fixture.look(now);
            for open in fixture.state.open.iter().filter(|open| !before.contains(&open.run)) {
                prop_assert!(open.tick.at <= now, "{} at {now}", open.tick.id);
                prop_assert!(fired.insert(open.tick.at), "{} fires twice", open.tick.id);
            }
            if ends {
                fixture.end_all(now);
            }
        }
    }

    /// A daemon that checks every few seconds fires exactly the ticks of the pattern, for every `catchup`.
    #[test]
    fn frequent_checks_fire_every_tick(
        pauses in prop::collection::vec(1..50_000_i64, 100..300),
        catchup in prop::sample::select(vec![Catchup::None, Catchup::Latest, Catchup::All]),
        jitter in prop::sample::select(vec![0_u64, 25_000]),
    ) {
        let mut fixture = ScheduleFixture::new("*/30 * * * * *", |s| {
            s.catchup = catchup;
            s.overlap = Overlap::Allow;
            s.jitter_millis = jitter;
        });
        let mut now = MIDNIGHT;
        for by in pauses {
            now += by;
            fixture.look(now);
        }
        let schedule = fixture.state.definition.clone().unwrap().schedule;
        let ticks = schedule.pattern().unwrap().between(MIDNIGHT, now, 100_000);
        let due = ticks.iter().filter(|tick| **tick + delay("s", &schedule, **tick).cast_signed() <= now).count();
        prop_assert_eq!(fixture.state.fired, due as u64);
        prop_assert_eq!(fixture.state.skipped, 0);
    }
}

#[test]
fn skip_reasons_are_distinct_in_json() {
    let past = serde_json::to_value(SkipReason::Missed).unwrap();
    assert_eq!(past, "missed");
}
