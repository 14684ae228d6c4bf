//! Requests to the pages of schedules.

use crate::fixture::{NOW, OPERATOR, Served, VIEWER};
use trainyard_core::RunId;
use trainyard_daemon::log::ScheduleLog;
use trainyard_daemon::operations::{self, SchedulePage};
use trainyard_daemon::schedule::event::{ScheduleEvent, SkipReason, Tick, TickOutcome};

const HOUR: i64 = 3_600_000;
const HOSTILE: &str = "<script>alert(1)</script> \u{202e}reversed \u{1b}[31m";

async fn shown(served: &Served, name: &str) -> SchedulePage {
    operations::show(&served.store, name, NOW).await.unwrap()
}

/// Returns records of a failed, a skipped and an open tick.
fn records() -> Vec<(i64, ScheduleEvent)> {
    let begin = NOW - NOW.rem_euclid(HOUR);
    let fired = |hours: i64, run: &str| ScheduleEvent::Fired {
        tick: Tick::scheduled(begin - hours * HOUR),
        run: RunId(run.into()),
        passed_over: 0,
        backfill: None,
        listing: None,
    };
    let (run, outcome) = (RunId("20261121-010000-aaaaaaa".into()), TickOutcome::Failed);
    let skipped = ScheduleEvent::Skipped {
        tick: Tick::scheduled(begin - 2 * HOUR),
        why: SkipReason::Overlap,
        passed_over: 0,
        backfill: None,
    };
    vec![
        (begin - 3 * HOUR + 600_000, fired(3, "20261121-010000-aaaaaaa")),
        (begin - 2 * HOUR, skipped),
        (begin - 2 * HOUR + 1, ScheduleEvent::Ended { run, outcome, why: Some(HOSTILE.into()) }),
        (begin - HOUR, fired(1, "20261121-030000-bbbbbbb")),
    ]
}

#[tokio::test]
async fn list_has_the_state_the_next_tick_and_the_last_run() {
    let served = Served::new().await;
    let (status, _, text) = served.get("/schedules", VIEWER).await;
    assert_eq!(status, 200);
    assert!(text.contains("No schedules here."), "{text}");
    assert!(text.contains("<a href=\"schedules\" aria-current=\"page\">Schedules</a>"), "{text}");
    served.schedule("nightly", records()).await;
    served.schedule("weekly.eu", Vec::new()).await;
    let (_, _, text) = served.get("/schedules", VIEWER).await;
    for part in [
        "href=\"schedules/nightly\"",
        "href=\"schedules/weekly.eu\"",
        "0 * * * * Europe/Paris",
        "2026-11-21 06:00:00 CET",
        "</span>failed</span>",
        "href=\"runs/20261121-010000-aaaaaaa\"",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let (_, _, text) = served.get("/schedules?name=night", VIEWER).await;
    assert!(text.contains("nightly") && !text.contains("weekly"), "{text}");
}

#[tokio::test]
async fn broken_files_are_shown_as_problems() {
    let served = Served::new().await;
    served.file("bad.yaml", "version: 1\nname: bad\nschedule: {cron: \"61 * * * *\"}\nstages: {}\n").await;
    let (_, _, text) = served.get("/schedules", VIEWER).await;
    assert!(text.contains("<strong>bad.yaml</strong> has mistakes"), "{text}");
    assert!(text.contains("not a cron pattern"), "{text}");
}

#[tokio::test]
async fn page_has_ticks_with_reasons_a_calendar_and_no_forms_for_a_viewer() {
    let served = Served::new().await;
    served.schedule("nightly", records()).await;
    let (status, _, text) = served.get("/schedules/nightly", VIEWER).await;
    assert_eq!(status, 200, "{text}");
    for part in [
        "<td class=\"wide\">the previous run was still active</td>",
        "10m00s late",
        "href=\"../workflows/nightly.yaml\"",
        "&lt;script&gt;alert(1)&lt;/script&gt; \\u{202e}reversed \\u{1b}[31m",
        "href=\"../runs/20261121-030000-bbbbbbb\"",
        "<caption>2026-11</caption>",
        "1<span class=\"word\"> failed</span>",
        "1<span class=\"word\"> skipped</span>",
        "?month=2026-11&amp;day=2026-11-21#ticks",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("method=\"post\"") && !text.contains("<script>alert"), "{text}");
    let (_, _, day) = served.get("/schedules/nightly?day=2026-11-19", VIEWER).await;
    assert!(day.contains("No tick was decided here.") && day.contains("Ticks of 2026-11-19"), "{day}");
    assert_eq!(served.get("/schedules/nightly?day=soon", VIEWER).await.0, 404);
    assert_eq!(served.get("/schedules/daily", VIEWER).await.0, 404);
    let (_, _, text) = served.get("/schedules/nightly", OPERATOR).await;
    for action in ["pause", "trigger", "backfills"] {
        let form = format!("method=\"post\" action=\"../schedules/nightly/{action}\"");
        assert!(text.contains(&form), "{form} in {text}");
    }
}

#[tokio::test]
async fn forms_change_the_schedule_in_the_name_of_their_sender() {
    let served = Served::new().await;
    served.schedule("nightly", Vec::new()).await;
    let (status, location, _) = served.post("/schedules/nightly/pause", OPERATOR, "why=the+cluster+%3Cb%3E").await;
    assert_eq!((status, location.as_str()), (303, "../../schedules/nightly"));
    let paused = shown(&served, "nightly").await.paused.unwrap();
    assert_eq!((paused.by.as_str(), paused.why.as_deref()), ("pages:ada", Some("the cluster <b>")));
    let (_, _, text) = served.get("/schedules/nightly", VIEWER).await;
    assert!(text.contains("Paused by pages:ada") && text.contains("the cluster &lt;b&gt;"), "{text}");
    assert_eq!(served.post("/schedules/nightly/resume", OPERATOR, "").await.0, 303);
    assert!(shown(&served, "nightly").await.paused.is_none());
    assert_eq!(served.post("/schedules/nightly/trigger", OPERATOR, "").await.0, 303);
    let page = shown(&served, "nightly").await;
    assert!(page.waiting[0].tick.contains("by-hand"), "{page:?}");
    let range = "from=2026-11-20&to=2026-11-20&concurrency=2";
    assert_eq!(served.post("/schedules/nightly/backfills", OPERATOR, range).await.0, 303);
    let backfill = shown(&served, "nightly").await.backfills[0].clone();
    assert_eq!((backfill.left, backfill.concurrency, backfill.again), (24, 2, false));
    let cancel = format!("/schedules/nightly/backfills/{}/cancel", backfill.id);
    assert_eq!(served.post(&cancel, OPERATOR, "").await.0, 303);
    let log = ScheduleLog::open(&served.store, "nightly").await.unwrap();
    assert!(log.state().backfills[0].cancelled);
}

#[tokio::test]
async fn wrong_forms_say_what_to_do() {
    let served = Served::new().await;
    served.schedule("nightly", Vec::new()).await;
    let path = "/schedules/nightly/backfills";
    for (fields, part) in [
        ("to=2026-11-20", "no first day"),
        ("from=yesterday&to=2026-11-20", "`yesterday` is not a time"),
        ("from=2026-11-20&to=2026-11-20&concurrency=0", "concurrency is 0"),
        ("from=2026-11-20&to=2026-11-20&concurrency=x", "no number of runs"),
    ] {
        let (status, _, text) = served.post(path, OPERATOR, fields).await;
        assert_eq!(status, 400, "{fields}: {text}");
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(served.post("/schedules/daily/pause", OPERATOR, "").await.0, 404);
    assert_eq!(served.post("/schedules/nightly/backfills/none/cancel", OPERATOR, "").await.0, 404);
    assert_eq!(served.get("/schedules/nightly/pause", OPERATOR).await.0, 405);
    assert!(shown(&served, "nightly").await.backfills.is_empty());
}

#[tokio::test]
async fn forms_of_others_are_refused() {
    let served = Served::new().await;
    served.schedule("nightly", Vec::new()).await;
    for action in ["pause", "resume", "trigger", "backfills", "backfills/x/cancel"] {
        served.assert_guarded(&format!("/schedules/nightly/{action}")).await;
    }
    let page = shown(&served, "nightly").await;
    assert!(page.paused.is_none() && page.waiting.is_empty() && page.backfills.is_empty(), "{page:?}");
}
