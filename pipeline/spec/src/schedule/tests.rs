//! Tests ticks across changes of the clock. Both directions of a search must find the same ticks.

use super::*;
use proptest::prelude::*;

fn millis(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

fn ticks(cron: &str, zone: &str, after: &str, until: &str) -> Vec<String> {
    let pattern = Schedule::cron(cron, zone).pattern().unwrap();
    let found = pattern.between(millis(after), millis(until), 1_000);
    found.into_iter().map(|tick| Timestamp::from_millisecond(tick).unwrap().to_string()).collect()
}

#[test]
fn ticks_follow_the_time_zone_through_the_change_of_clocks() {
    let schedule = Schedule::cron("30 2 * * *", "Europe/Paris");
    // 2026-01-01T00:00:00Z → 02:30 in Paris is 01:30Z.
    assert_eq!(schedule.next_after(1_767_225_600_000), Some(1_767_231_000_000));
    // In summer it is 00:30Z: after 2026-07-01T00:00:00Z.
    assert_eq!(schedule.next_after(1_782_864_000_000), Some(1_782_865_800_000));
}

/// Clocks change on 2026-03-29 and 2026-10-25 at 01:00Z in Paris, on 2026-03-08 at 07:00Z and 2026-11-01 at 06:00Z in
/// New York.
#[test]
fn a_fixed_time_runs_once_a_day_in_two_zones_in_both_directions() {
    // (zone, pattern, from, to, ticks)
    let cases: [(&str, &str, &str, &str, &[&str]); 8] = [
        // 02:30 does not exist on the 29th: once, right after the gap.
        (
            "Europe/Paris",
            "30 2 * * *",
            "2026-03-28T00:00:00Z",
            "2026-03-30T12:00:00Z",
            &["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
        ),
        // 02:30 exists twice on the 25th: the first.
        (
            "Europe/Paris",
            "30 2 * * *",
            "2026-10-24T00:00:00Z",
            "2026-10-26T12:00:00Z",
            &["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        ),
        (
            "America/New_York",
            "30 2 * * *",
            "2026-03-07T00:00:00Z",
            "2026-03-09T12:00:00Z",
            &["2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"],
        ),
        (
            "America/New_York",
            "30 1 * * *",
            "2026-10-31T00:00:00Z",
            "2026-11-02T12:00:00Z",
            &["2026-10-31T05:30:00Z", "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
        ),
        // The hours around both changes exist once each.
        (
            "Europe/Paris",
            "0 3 * * *",
            "2026-03-28T12:00:00Z",
            "2026-03-30T12:00:00Z",
            &["2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"],
        ),
        (
            "America/New_York",
            "59 0 * * *",
            "2026-10-31T12:00:00Z",
            "2026-11-02T12:00:00Z",
            &["2026-11-01T04:59:00Z", "2026-11-02T05:59:00Z"],
        ),
        // Patterns of every hour follow the elapsed hours: each hour has exactly one tick.
        (
            "Europe/Paris",
            "0 * * * *",
            "2026-03-29T00:00:00Z",
            "2026-03-29T03:00:00Z",
            &["2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z", "2026-03-29T03:00:00Z"],
        ),
        (
            "America/New_York",
            "*/30 * * * *",
            "2026-11-01T04:30:00Z",
            "2026-11-01T06:30:00Z",
            &["2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z", "2026-11-01T06:00:00Z", "2026-11-01T06:30:00Z"],
        ),
    ];
    for (zone, cron, after, until, expected) in cases {
        assert_eq!(ticks(cron, zone, after, until), expected, "{cron} in {zone} after {after}");
    }
}

#[test]
fn an_instant_is_shown_as_clocks_show_it() {
    let pattern = Schedule::cron("0 2 * * *", "Europe/Paris").pattern().unwrap();
    assert_eq!(pattern.local(millis("2026-07-01T00:30:00Z")).unwrap(), "2026-07-01 02:30:00 CEST");
}

#[test]
fn names_of_artifacts_have_three_parts() {
    assert_eq!(Trigger::Artifact("a.b.c.d".into()).artifact(), Some(("a.b", "c", "d")));
    assert_eq!(Trigger::Artifact("a..d".into()).artifact(), None);
    assert_eq!(Trigger::Files("/x".into()).artifact(), None);
}

proptest! {
    /// Around all changes of 2026 and away from them, the last tick before an instant is the last of those found
    /// forwards, and the next one does not depend on where the search begins.
    #[test]
    fn both_directions_see_the_same_ticks(
        zone in prop::sample::select(vec!["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe"]),
        cron in prop::sample::select(vec!["30 2 * * *", "30 1 * * *", "0 * * * *", "*/30 * * * *", "15 1,2,3 * * *"]),
        day in prop::sample::select(vec![
            "2026-03-08", "2026-03-29", "2026-04-04", "2026-10-03", "2026-10-25", "2026-11-01",
        ]),
        offset in -86_400_000_i64..86_400_000,
    ) {
        let pattern = Schedule::cron(cron, zone).pattern().unwrap();
        let at = millis(&format!("{day}T04:00:00Z")) + offset;
        let around = pattern.between(at - 3 * 86_400_000, at + 3 * 86_400_000, 1_000);
        let last = around.iter().copied().filter(|tick| *tick <= at).max();
        let next = around.iter().copied().find(|tick| *tick > at);
        prop_assert_eq!(pattern.last_until(at), last);
        prop_assert_eq!(pattern.next_after(at), next);
    }
}
