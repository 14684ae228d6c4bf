//! Requests to the page of a run.

use crate::testing::{RUN, TestRun};
use std::time::Duration;
use trainyard_core::attempt::AttemptMessage;
use trainyard_core::clock::{Clock as _, SystemClock};
use trainyard_core::event::{AttemptOutcome, Event};
use trainyard_core::progress::{ProgressMetric, ProgressRecord};
use trainyard_core::{Error, RunId, StageKey};
use trainyard_store::AttemptStream;

const HOSTILE: &str = "<script>alert(1)</script>\u{202e}\u{1b}[31m";

async fn put_curve(test: &TestRun, stage: &str, steps: u64) {
    let line = |step: u64| AttemptMessage::Metric { name: "reward".into(), step, value: step as f64 / 10.0 };
    let lines: String = (1..=steps).map(|step| serde_json::to_string(&line(step)).unwrap() + "\n").collect();
    let (run, stage) = (RunId(RUN.into()), StageKey(stage.into()));
    test.app.store.put_chunk(&run, &stage, 1, AttemptStream::Metrics, 0, lines.into()).await.unwrap();
}

#[tokio::test]
async fn running_stage_is_shown_with_progress_and_curves() {
    let mut test = TestRun::create(&[("data", &[]), ("rl", &["data"])]).await;
    test.start("data", 1, "cpu").await;
    test.at += 2_000;
    test.publish("data", 1).await;
    test.start("rl", 1, "gpu").await;
    let progress = ProgressRecord {
        format: 1,
        at: test.at,
        done: 120,
        total: 400,
        unit: "steps".into(),
        rate: Some(12.5),
        seconds_left: Some(22.4),
        metric: Some(ProgressMetric { name: "reward".into(), value: 0.25 }),
    };
    test.app.store.put_progress(&RunId(RUN.into()), &StageKey("rl".into()), 1, &progress).await.unwrap();
    put_curve(&test, "rl", 3).await;
    for name in [RUN, "latest", &RUN[..12]] {
        let (status, html) = test.get(&format!("/runs/{name}")).await;
        assert_eq!(status, 200);
        for part in [
            "120 of 400 steps",
            "12.5 steps/s",
            "22.4s",
            "reward 0.25",
            "1 of 2",
            "rl from 0.1 at 1 to 0.3 at 3",
            "rl waited for data (pool cpu)",
            "workflows/gsm8k.yaml",
        ] {
            assert!(html.contains(part), "{part} is missing: {html}");
        }
        assert!(html.contains(&format!("data-events=\"../runs/{RUN}/events\"")), "{html}");
    }
    let (_, html) = test.get(&format!("/runs/{RUN}")).await;
    assert!(html.contains(&format!("href=\"../runs/{RUN}/stages/rl\"")), "{html}");
}

#[tokio::test]
async fn parts_are_sections_without_the_frame() {
    let mut test = TestRun::create(&[("rl", &[])]).await;
    test.start("rl", 1, "gpu").await;
    put_curve(&test, "rl", 3).await;
    for (part, text) in [("graph", "<svg"), ("curves", "<figure"), ("stages", "<table"), ("timeline", "Pool gpu")] {
        let (status, html) = test.get(&format!("/runs/{RUN}?part={part}")).await;
        assert!(status == 200 && html.contains(text) && !html.contains("<html"), "{part}: {html}");
    }
    let (status, html) = test.get(&format!("/runs/{RUN}?part=other")).await;
    assert!(status == 404 && html.contains("the parts are graph"), "{html}");
}

#[tokio::test]
async fn timeline_tells_waits_from_what_an_attempt_held() {
    let mut test = TestRun::create(&[("rl", &[])]).await;
    test.start("rl", 1, "gpu").await;
    let (stage, why) = (StageKey("rl".into()), format!("held by {HOSTILE}"));
    test.append(Event::AttemptWaiting { stage: stage.clone(), attempt: 1, why }).await;
    test.at += 27_000;
    test.append(Event::AttemptWorking { stage, attempt: 1 }).await;
    test.at += 5_000;
    test.publish("rl", 1).await;
    let (_, html) = test.get(&format!("/runs/{RUN}?part=timeline")).await;
    for part in [
        "held 5.0s of 32.0s, waited 27.0s for the machine: held by &lt;script&gt;",
        "class=\"wait\"",
        "Dashed outline: it waited for the machine",
        "rl waited for the machine: held by &lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}",
    ] {
        assert!(html.contains(part), "{part} is missing: {html}");
    }
    assert!(!html.contains("<script>"), "{html}");
}

#[tokio::test]
async fn curves_are_smoothed_and_lead_to_the_trajectories_of_their_step() {
    let mut test = TestRun::create(&[("rl", &[])]).await;
    test.start("rl", 1, "gpu").await;
    put_curve(&test, "rl", 3).await;
    let (_, html) = test.get(&format!("/runs/{RUN}?part=curves&smooth=0.6&log=1")).await;
    assert!(html.contains("line raw") && !html.contains("rollouts?step"), "nothing is published: {html}");
    test.publish("rl", 1).await;
    let (_, html) = test.get(&format!("/runs/{RUN}?part=curves")).await;
    let digest = trainyard_core::Digest::of(b"rl");
    assert!(html.contains(&format!("href=\"../artifacts/{digest}/trajectories/rollouts?step=3\"")), "{html}");
    let (_, html) = test.get(&format!("/runs/{RUN}?part=curves&with={RUN},none")).await;
    assert!(html.contains(&format!("rl of {RUN}")), "{html}");
    assert!(html.contains("none is not drawn: no run is called `none`"), "{html}");
}

#[tokio::test]
async fn names_and_errors_stay_text() {
    let mut test = TestRun::create(&[(HOSTILE, &[])]).await;
    test.start(HOSTILE, 1, "gpu").await;
    let stage = StageKey(HOSTILE.into());
    let error = Error::data(format!("bad row {HOSTILE}"));
    let outcome = AttemptOutcome::Failed;
    test.append(Event::AttemptEnded { stage: stage.clone(), attempt: 1, outcome, error: Some(error.clone()) }).await;
    test.append(Event::StageFailed { stage, error }).await;
    let (status, html) = test.get(&format!("/runs/{RUN}?with={}", "%3Cscript%3E")).await;
    assert_eq!(status, 200);
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}\\u{1b}[31m"), "{html}");
    assert!(!html.contains("<script>") && !html.contains('\u{1b}'), "{html}");
}

#[tokio::test]
async fn stages_are_paged_and_filtered() {
    let names: Vec<String> = (0..450).map(|seed| format!("rl[seed={seed}]")).collect();
    let mut stages: Vec<(&str, &[&str])> = names.iter().map(|name| (name.as_str(), &[][..])).collect();
    stages.push(("end", &["rl[seed=0]"]));
    let test = TestRun::create(&stages).await;
    let (_, html) = test.get(&format!("/runs/{RUN}?part=stages")).await;
    assert!(html.contains("Stages 1 to 200 of 451") && html.contains("?from=200#stages"), "{html}");
    let (_, html) = test.get(&format!("/runs/{RUN}?part=stages&group=rl&from=400")).await;
    assert!(html.contains("Stages 401 to 450 of 450") && html.contains("?group=rl&amp;from=200"), "{html}");
    let (_, html) = test.get(&format!("/runs/{RUN}?part=stages&group=end&status=done")).await;
    assert!(html.contains("No stage fits the filter."), "{html}");
    let (_, html) = test.get(&format!("/runs/{RUN}?part=graph")).await;
    assert_eq!(html.matches("<a ").count(), 2, "the fan-out is one node: {html}");
    assert!(html.contains("450 pending") && html.contains("?group=rl#stages"), "{html}");
}

#[tokio::test]
async fn graph_of_5000_stages_is_drawn_in_a_second() {
    let names: Vec<(String, String)> = (0..5_000)
        .map(|n| (format!("s{}[n={n}]", n / 10), format!("s{}[n={}]", (n / 10).max(1) - 1, n % 10)))
        .collect();
    let after: Vec<[&str; 1]> = names.iter().map(|(_, after)| [after.as_str()]).collect();
    let stages: Vec<(&str, &[&str])> =
        names.iter().zip(&after).map(|((n, _), after)| (n.as_str(), &after[..])).collect();
    let test = TestRun::create(&stages).await;
    test.get(&format!("/runs/{RUN}?part=stages")).await;
    let clock = SystemClock::new();
    let (status, html) = test.get(&format!("/runs/{RUN}?part=graph")).await;
    let took = clock.monotonic();
    assert!(status == 200 && html.contains("200 more nodes are not drawn"), "{html}");
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test]
async fn events_are_a_stream_until_the_run_is_over() {
    let mut test = TestRun::create(&[("rl", &[])]).await;
    test.finish().await;
    let response = test.response(&format!("/runs/{RUN}/events")).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let json: serde_json::Value = serde_json::from_str(text.trim().strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!((&json["over"], &json["run"]["status"]), (&true.into(), &"succeeded".into()));
    let (_, html) = test.get(&format!("/runs/{RUN}")).await;
    assert!(!html.contains("data-events"), "the page of a run that is over needs no stream");
}

#[tokio::test]
async fn unknown_runs_are_an_error_with_advice() {
    let test = TestRun::create(&[]).await;
    for path in ["/runs/none", "/runs/none/events", "/runs/none/stages/rl"] {
        let (status, html) = test.get(path).await;
        assert!(status == 404 && html.contains("no run is called `none`"), "{path}: {html}");
    }
    let (_, html) = test.get(&format!("/runs/{RUN}")).await;
    assert!(html.contains("The run has no stages.") && html.contains("No attempt has started yet."), "{html}");
}
