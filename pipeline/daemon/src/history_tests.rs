//! Tests pages and months of ticks with a log written by hand.

use super::*;
use crate::schedule::event::{BackfillRequest, Definition};
use trainyard_core::Digest;
use trainyard_store::StoreOptions;

/// 2026-11-21T04:00:00Z: 05:00 in Paris.
const NOW: i64 = 1_795_233_600_000;
const HOUR: i64 = 3_600_000;

async fn store() -> Store {
    Store::open("memory://", StoreOptions::default()).await.unwrap()
}

/// Writes these records for a schedule of every hour in Paris that was defined a day before.
async fn logged(store: &Store, records: Vec<(i64, ScheduleEvent)>) {
    let schedule = Schedule::cron("0 * * * *", "Europe/Paris");
    let definition = Definition { schedule, file: "f.yaml".into(), home: String::new(), texts: Digest::of(b"") };
    let mut log = ScheduleLog::open(store, "s").await.unwrap();
    let first = (NOW - 24 * HOUR, ScheduleEvent::Defined { definition });
    for (at, event) in std::iter::once(first).chain(records) {
        log.append(at, "daemon", |_| Some(event.clone())).await.unwrap();
    }
}

fn run(number: i64) -> RunId {
    RunId(format!("run-{number}"))
}

fn fired(at: i64) -> ScheduleEvent {
    let (tick, run) = (Tick::scheduled(at), run(at));
    ScheduleEvent::Fired { tick, run, passed_over: 0, backfill: None, listing: None }
}

fn ended(at: i64, outcome: TickOutcome) -> ScheduleEvent {
    ScheduleEvent::Ended { run: run(at), outcome, why: None }
}

fn skipped(at: i64, passed_over: u64) -> ScheduleEvent {
    ScheduleEvent::Skipped { tick: Tick::scheduled(at), why: SkipReason::Missed, passed_over, backfill: None }
}

/// Returns ticks in short: name of the outcome, or of the reason for skipping.
fn short(list: &TickList) -> Vec<String> {
    let decision = |row: &TickRow| match &row.decision {
        TickDecisionRow::Skipped(why) => format!("{why:?}"),
        TickDecisionRow::Fired { outcome: Some(outcome), .. } => format!("{outcome:?}"),
        TickDecisionRow::Fired { is_open, .. } => if *is_open { "open" } else { "unknown" }.to_string(),
    };
    list.ticks.iter().map(decision).collect()
}

#[tokio::test]
async fn ticks_are_paged_with_the_ends_of_their_runs() {
    let store = store().await;
    let (a, b, c) = (NOW - 3 * HOUR, NOW - 2 * HOUR, NOW - HOUR);
    logged(
        &store,
        vec![(a + 5_000, fired(a)), (b, skipped(b, 2)), (c, fired(c)), (c + 1, ended(a, TickOutcome::Failed))],
    )
    .await;
    let all = ticks(&store, "s", (None, None), 10).await.unwrap();
    assert_eq!(short(&all), ["open", "Missed", "Failed"]);
    assert_eq!((all.next, all.ticks[2].late_millis, all.ticks[1].passed_over), (None, 5_000, 2));
    let first = ticks(&store, "s", (None, None), 2).await.unwrap();
    assert_eq!(short(&first), ["open", "Missed"]);
    let rest = ticks(&store, "s", (first.next, None), 2).await.unwrap();
    assert_eq!((short(&rest), rest.next), (vec!["Failed".to_string()], None), "the end is in the page before");
    let day = ticks(&store, "s", (None, Some("2026-11-21")), 10).await.unwrap();
    assert_eq!(short(&day), short(&all));
    let none = ticks(&store, "s", (None, Some("2026-11-19")), 10).await.unwrap();
    assert_eq!((short(&none), none.next), (Vec::<String>::new(), None));
    assert!(ticks(&store, "s", (None, Some("soon")), 10).await.unwrap_err().message.contains("soon"));
}

#[tokio::test]
async fn days_of_a_month_are_those_of_the_zone() {
    let store = store().await;
    // 23:30 in UTC on the 20th is the 21st in Paris.
    let night = NOW - 4 * HOUR - HOUR / 2;
    logged(
        &store,
        vec![
            (night, fired(night)),
            (night + 1, ended(night, TickOutcome::Succeeded)),
            (NOW - HOUR, skipped(NOW - HOUR, 2)),
        ],
    )
    .await;
    let month = month(&store, "s", None, NOW).await.unwrap();
    assert_eq!((month.first.to_string().as_str(), month.zone.as_str()), ("2026-11-01", "Europe/Paris"));
    assert_eq!((month.today.day(), month.is_cut), (21, false));
    let today = &month.days[&21];
    assert_eq!((today.ended.get(&TickOutcome::Succeeded), today.skipped), (Some(&1), 3));
    assert_eq!(today.due, 18, "from 06:00 to 23:00");
    assert_eq!((month.days.keys().next(), month.days[&22].due), (Some(&21), 24));
    let before = super::month(&store, "s", Some("2026-10"), NOW).await.unwrap();
    assert!(before.days.is_empty());
    assert!(super::month(&store, "s", Some("2026-13"), NOW).await.is_err());
}

/// Requests a backfill of a range, and fires its ticks at some time; the runs end an hour later.
fn backfilled(id: &str, at: i64, ticks: &[i64], outcome: TickOutcome) -> Vec<(i64, ScheduleEvent)> {
    let (from, to) = (ticks[0], ticks[ticks.len() - 1]);
    let backfill = BackfillRequest { id: id.into(), from, to, concurrency: 1, again: false };
    let fired = |tick: &i64| {
        let (tick, run) = (Tick::scheduled(*tick), run(*tick));
        (at, ScheduleEvent::Fired { tick, run, passed_over: 0, backfill: Some(id.into()), listing: None })
    };
    let requested = std::iter::once((at, ScheduleEvent::BackfillRequested { backfill }));
    let ends = ticks.iter().map(|tick| (at + HOUR, ended(*tick, outcome)));
    requested.chain(ticks.iter().map(fired)).chain(ends).collect()
}

#[tokio::test]
async fn runs_of_a_backfill_count_on_the_days_of_their_ticks() {
    let store = store().await;
    let day = 24 * HOUR;
    // The 31st of October, and the 3rd and the 4th of November.
    let ticks_of_backfill = [NOW - 21 * day, NOW - 18 * day, NOW - 17 * day];
    let mut records = vec![(NOW - 3 * HOUR, fired(NOW - 3 * HOUR))];
    records.extend(backfilled("x", NOW - 2 * HOUR, &ticks_of_backfill, TickOutcome::Succeeded));
    records.push((NOW - HOUR + 1, ended(NOW - 3 * HOUR, TickOutcome::Failed)));
    logged(&store, records).await;
    let ended = |month: &TickMonth| -> Vec<(i8, TickOutcome, u64)> {
        let of_day = |(day, counts): (&i8, &DayCounts)| {
            let day = *day;
            counts.ended.iter().map(move |(outcome, count)| (day, *outcome, *count)).collect::<Vec<_>>()
        };
        month.days.iter().flat_map(of_day).collect()
    };
    let november = month(&store, "s", None, NOW).await.unwrap();
    let (succeeded, failed) = (TickOutcome::Succeeded, TickOutcome::Failed);
    assert_eq!(ended(&november), [(3, succeeded, 1), (4, succeeded, 1), (21, failed, 1)]);
    let october = month(&store, "s", Some("2026-10"), NOW).await.unwrap();
    assert_eq!((ended(&october), october.is_cut), (vec![(31, succeeded, 1)], false));
    let third = ticks(&store, "s", (None, Some("2026-11-03")), 10).await.unwrap();
    assert_eq!((short(&third), third.ticks[0].backfill.as_deref()), (vec!["Succeeded".to_string()], Some("x")));
    let today = ticks(&store, "s", (None, Some("2026-11-21")), 10).await.unwrap();
    assert_eq!(short(&today), ["Failed"], "the ticks of the backfill are of other days");
    assert_eq!(short(&ticks(&store, "s", (None, None), 10).await.unwrap()).len(), 4, "the list has all");
}

#[tokio::test]
async fn ticks_of_a_day_are_paged_with_those_of_backfills() {
    let store = store().await;
    let third = NOW - 18 * 24 * HOUR;
    let ticks_of_backfill: Vec<i64> = (0..4).map(|hour| third + hour * HOUR).collect();
    logged(&store, backfilled("x", NOW - 2 * HOUR, &ticks_of_backfill, TickOutcome::Cancelled)).await;
    let (mut names, mut before) = (Vec::new(), None);
    for left in [2, 0] {
        let page = ticks(&store, "s", (before, Some("2026-11-03")), 2).await.unwrap();
        assert_eq!((short(&page).concat(), page.next.is_some()), ("CancelledCancelled".to_string(), left > 0));
        names.extend(page.ticks.into_iter().map(|row| row.tick));
        before = page.next;
    }
    let expected: Vec<String> = ticks_of_backfill.iter().rev().map(|at| Tick::scheduled(*at).id).collect();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn a_run_of_a_backfill_that_ends_much_later_is_found() {
    let store = store().await;
    // The 31st of October.
    let tick = NOW - 21 * 24 * HOUR;
    let mut records = backfilled("x", NOW - 3 * HOUR, &[tick, tick + HOUR], TickOutcome::Succeeded);
    records.pop();
    // So many records of others follow that the end of the second run is far from its tick.
    for minute in 0..300 {
        let at = NOW - HOUR + minute;
        records.push((at, skipped(at, 0)));
    }
    records.push((NOW - 1, ended(tick + HOUR, TickOutcome::Failed)));
    logged(&store, records).await;
    let october = month(&store, "s", Some("2026-10"), NOW).await.unwrap();
    let ends = &october.days[&31].ended;
    assert_eq!((ends.get(&TickOutcome::Succeeded), ends.get(&TickOutcome::Failed)), (Some(&1), Some(&1)));
    let november = month(&store, "s", None, NOW).await.unwrap();
    assert_eq!((november.days[&21].ended.len(), november.days[&21].skipped), (0, 300));
}
