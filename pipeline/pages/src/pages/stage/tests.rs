//! Requests to the page of a stage.

use crate::catalogue::{PageCatalogue, PartEntry};
use crate::testing::{RUN, TestRun, kind};
use serde_json::{Value, json};
use trainyard_core::attempt::{AttemptMessage, LogLevel, LogRecord};
use trainyard_core::event::{AttemptOutcome, Event, OutputSummary};
use trainyard_core::{ArtifactKind, Digest, Error, RunId, StageKey};
use trainyard_store::AttemptStream;

async fn put_log(test: &TestRun, stage: &str, chunk: u32, lines: &[(LogLevel, &str)]) {
    let line = |(level, text): &(LogLevel, &str)| {
        LogRecord { at: Some(test.at), level: *level, text: (*text).into() }.to_line() + "\n"
    };
    let text: String = lines.iter().map(line).collect();
    let (run, stage) = (RunId(RUN.into()), StageKey(stage.into()));
    test.app.store.put_chunk(&run, &stage, 1, AttemptStream::Log, chunk, text.into()).await.unwrap();
}

#[tokio::test]
async fn published_stage_has_outputs_metrics_and_linked_curves() {
    let mut test = TestRun::create(&[("rl[seed=1]", &[])]).await;
    test.start("rl[seed=1]", 1, "gpu").await;
    let point = AttemptMessage::Metric { name: "reward".into(), step: 7, value: 0.5 };
    let (run, key) = (RunId(RUN.into()), StageKey("rl[seed=1]".into()));
    let line = serde_json::to_string(&point).unwrap() + "\n";
    test.app.store.put_chunk(&run, &key, 1, AttemptStream::Metrics, 0, line.into()).await.unwrap();
    test.publish("rl[seed=1]", 1).await;
    let (status, html) = test.get(&format!("/runs/{RUN}/stages/rl%5Bseed%3D1%5D")).await;
    assert_eq!(status, 200);
    let digest = Digest::of(b"rl[seed=1]");
    for part in [
        format!("href=\"../../../artifacts/{digest}/trajectories\""),
        format!("href=\"../../../artifacts/{digest}/trajectories/rollouts?step=7\""),
        format!("href=\"../../../runs/{RUN}?group=rl#stages\""),
        "reward 0.5".to_string(),
        "gpu: 2 CPUs, GPU 0".to_string(),
        "succeeded".to_string(),
        "2.0 kB".to_string(),
        format!("stage digest {digest}"),
    ] {
        assert!(html.contains(&part), "{part} is missing: {html}");
    }
}

#[tokio::test]
async fn log_is_searched_and_followed() {
    let mut test = TestRun::create(&[("rl", &[])]).await;
    test.start("rl", 1, "gpu").await;
    let hostile = "<img src=x onerror=alert(1)> javascript: \u{1b}[31m\u{202e}";
    put_log(&test, "rl", 0, &[(LogLevel::Info, "begin"), (LogLevel::Warn, "slow store"), (LogLevel::Error, hostile)])
        .await;
    let (_, html) = test.get(&format!("/runs/{RUN}/stages/rl")).await;
    assert!(html.contains("data-log=\"1.0\"") && html.contains("data-level=\"warn\""), "{html}");
    assert!(html.contains("<span class=\"level\">warn</span>"), "levels are words: {html}");
    assert!(html.contains("&lt;img src=x onerror=alert(1)&gt; javascript: \\u{1b}[31m\\u{202e}"), "{html}");
    let (_, html) = test.get(&format!("/runs/{RUN}/stages/rl?part=log&find=SLOW")).await;
    assert!(html.contains("slow store") && !html.contains("begin") && !html.contains("data-log"), "{html}");
    put_log(&test, "rl", 1, &[(LogLevel::Info, "later")]).await;
    let (_, html) = test.get(&format!("/runs/{RUN}/stages/rl?part=log&at=1.0")).await;
    assert!(html.contains("later") && !html.contains("begin") && html.contains("data-log=\"2.0\""), "{html}");
    let (_, html) = test.get(&format!("/runs/{RUN}/stages/rl?part=log&find=nothing")).await;
    assert!(html.contains("No line has the text."), "{html}");
    for (query, message) in [("at=x", "`x` is no place in a log"), ("attempt=x", "`x` is no number of an attempt")] {
        let (status, html) = test.get(&format!("/runs/{RUN}/stages/rl?{query}")).await;
        assert!(status == 404 && html.contains(message), "{html}");
    }
}

#[tokio::test]
async fn long_logs_are_paged() {
    let mut test = TestRun::create(&[("rl", &[])]).await;
    test.start("rl", 1, "gpu").await;
    let texts: Vec<String> = (0..700).map(|n| format!("line {n};")).collect();
    let lines: Vec<(LogLevel, &str)> = texts.iter().map(|text| (LogLevel::Info, text.as_str())).collect();
    put_log(&test, "rl", 0, &lines).await;
    let (_, html) = test.get(&format!("/runs/{RUN}/stages/rl")).await;
    assert!(html.contains("line 699;") && html.contains("line 400;") && !html.contains("line 399;"), "the last lines");
    assert!(html.contains("?at=0.200#log"), "{html}");
    let (_, html) = test.get(&format!("/runs/{RUN}/stages/rl?part=log&at=0.0")).await;
    assert!(html.contains("line 299;") && !html.contains("line 300;") && html.contains("?at=0.300#log"), "{html}");
}

#[tokio::test]
async fn failed_attempts_and_hits_are_explained() {
    let mut test = TestRun::create(&[("sft", &[]), ("rl", &["sft"])]).await;
    test.start("rl", 1, "gpu").await;
    let stage = StageKey("rl".into());
    let error = Some(Error::data("out of <memory>"));
    test.append(Event::AttemptEnded { stage, attempt: 1, outcome: AttemptOutcome::TimedOut, error }).await;
    let (_, html) = test.get(&format!("/runs/{RUN}/stages/rl")).await;
    assert!(html.contains("out of &lt;memory&gt;") && html.contains("data-status=\"timedout\""), "{html}");
    assert!(html.contains("waits for sft (pending)") || html.contains("Needs: "), "{html}");
    let output = OutputSummary { kind: ArtifactKind::Model, digest: Digest::of(b"m"), size: 1, rows: None };
    test.append(Event::CacheHit {
        stage: StageKey("sft".into()),
        digest: Digest::of(b"sft"),
        generation: 0,
        metrics: [("loss".to_string(), 1.5)].into(),
        comparisons: Vec::new(),
        outputs: [("model".to_string(), output)].into(),
    })
    .await;
    let (_, html) = test.get(&format!("/runs/{RUN}/stages/sft")).await;
    assert!(html.contains("sft is hit") && html.contains("The stage has no log in this run."), "{html}");
    let (status, html) = test.get(&format!("/runs/{RUN}/stages/other")).await;
    assert!(status == 404 && html.contains("has no stage other"), "{html}");
}

async fn put_config(test: &TestRun, stage: &str, config: Value) {
    let spec = json!({
        "format": 1, "workflow": "w", "run": RUN, "stage": stage, "attempt": 1, "stage_digest": Digest::of(b"rl"),
        "kind": "rl", "kind_version": 1, "config": config, "inputs": {}, "outputs": {},
        "resources": trainyard_core::attempt::AttemptResources::default(),
    });
    test.app.store.put_spec(&serde_json::from_value(spec).unwrap()).await.unwrap();
}

/// Returns the row of the table of the configuration with this path.
fn row<'a>(html: &'a str, path: &str) -> &'a str {
    let cell = format!("<td class=\"mono\">{path}</td>");
    let at = html.find(&cell).unwrap_or_else(|| panic!("{path} is missing: {html}"));
    let (start, end) = (html[..at].rfind("<tr").unwrap(), at + html[at..].find("</tr>").unwrap());
    &html[start..end]
}

#[tokio::test]
async fn defaults_of_the_configuration_are_dimmed_and_named() {
    let options = json!({"properties": {
        "steps": {"type": "integer", "default": 100},
        "seed": {"type": "integer", "default": 0},
        "algorithm": {"enum": ["plain"], "default": "plain"},
        "filters": {"type": "array", "items": {}},
    }});
    let plain = PartEntry {
        name: "algorithms/plain".into(),
        family: "algorithms".into(),
        expands_to: Some(r#"{"filters": [{"kind": "overlong"}]}"#.into()),
        ..PartEntry::default()
    };
    let kinds = vec![kind("rl", options, vec!["algorithms"])];
    let catalogue = PageCatalogue { kinds, parts: vec![plain], ..PageCatalogue::default() };
    let mut test = TestRun::create_with(&[("rl", &[])], catalogue).await;
    let path = format!("/runs/{RUN}/stages/rl");
    let (_, html) = test.get(&path).await;
    assert!(html.contains("The configuration is complete once the stage starts"), "{html}");
    test.start("rl", 1, "gpu").await;
    let filters = json!([{"kind": "overlong"}]);
    put_config(&test, "rl", json!({"steps": 7, "seed": 0, "filters": filters, "<b>": "<script>\u{202e}"})).await;
    let (_, html) = test.get(&path).await;
    for (path, class, value) in [
        ("steps", "given", "7"),
        ("seed", "default", "0"),
        ("filters[0].kind", "default", "&quot;overlong&quot;"),
        ("[&quot;&lt;b&gt;&quot;]", "given", r"&lt;script&gt;\u{202e}"),
    ] {
        let row = row(&html, path);
        assert!(row.contains(&format!("<tr class=\"{class}\">")) && row.contains(value), "{row}");
        assert!(row.contains(&format!("<td class=\"origin\">{class}</td>")), "no meaning by color alone: {row}");
    }
    assert!(html.contains("2 of 4 values equal the defaults of") && html.contains("href=\"../../../stages/rl\""));
    assert!(html.contains("The stage ran with version 1 of this kind"), "{html}");
    assert!(!html.contains("<script>\u{202e}") && !html.contains('\u{202e}'));
    let (_, part) = test.get(&format!("{path}?part=settings")).await;
    assert!(part.contains("<td class=\"origin\">given</td>"), "the live section has it, too: {part}");
}

#[tokio::test]
async fn configurations_of_unknown_kinds_have_no_marks() {
    let mut test = TestRun::create(&[("rl", &[])]).await;
    test.start("rl", 1, "gpu").await;
    put_config(&test, "rl", json!({"steps": 7})).await;
    let (_, html) = test.get(&format!("/runs/{RUN}/stages/rl")).await;
    assert!(html.contains("this program has no stage kind <code>rl</code>") && html.contains("&quot;steps&quot;: 7"));
    assert!(!html.contains("class=\"origin\""), "{html}");
}
