//! Requests to the pages of workflow files.

use crate::fixture::{OPERATOR, Served, VIEWER};
use trainyard_daemon::log::ScheduleLog;

const FILE: &str = "version: 1\nname: train\nparams:\n  steps: {type: int, min: 1, description: \"<b>Steps</b>\"}\n  \
    mode: {type: string, default: fast, choices: [fast, slow]}\n  tick: {type: string}\nstages:\n  \
    data: {run: 'echo ${{ params.tick }}', cache: false}\n  \
    fit:\n    needs: [data]\n    matrix: {seed: [1, 2]}\n    description: \"\\u202ehostile\"\n    \
    run: 'echo ${{ params.steps }} ${{ params.mode }} ${{ matrix.seed }}'\n    cache: false\n";

#[tokio::test]
async fn files_are_listed_and_described_with_a_field_for_each_param() {
    let served = Served::new().await;
    served.file("train.yaml", FILE).await;
    let (status, _, text) = served.get("/workflows", VIEWER).await;
    assert_eq!(status, 200);
    assert!(text.contains("href=\"workflows/train.yaml\"") && text.contains("`steps` has no value"), "{text}");
    let (_, _, text) = served.get("/workflows/train.yaml", OPERATOR).await;
    for part in [
        "name=\"p.steps\"",
        "&lt;b&gt;Steps&lt;/b&gt;",
        "At least 1. ",
        "Needs a value.",
        "<option value=\"fast\" selected>fast</option>",
        "Empty: the time of the request.",
        "There is no plan yet",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("Start a run"), "{text}");
}

#[tokio::test]
async fn plan_of_the_values_in_the_address_is_shown_and_started() {
    let served = Served::new().await;
    served.file("train.yaml", FILE).await;
    let (status, _, text) = served.get("/workflows/train.yaml?p.steps=3&p.mode=fast", OPERATOR).await;
    assert_eq!(status, 200);
    for part in [
        "Stage instances: 3.",
        "<td class=\"n\">2</td><td>fit</td>",
        "\\u{202e}hostile",
        "<input type=\"hidden\" name=\"p.steps\" value=\"3\">",
        "action=\"../workflows/train.yaml/runs\"",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("type=\"hidden\" name=\"p.mode\""), "the default is not passed: {text}");
    let (_, _, text) = served.get("/workflows/train.yaml?p.steps=3", VIEWER).await;
    assert!(!text.contains("method=\"post\""), "{text}");
    let (status, location, text) = served.post("/workflows/train.yaml/runs", OPERATOR, "p.steps=3").await;
    assert_eq!(status, 303, "{text}");
    let log = ScheduleLog::open(&served.store, "train").await.unwrap();
    let open = &log.state().open[0];
    assert_eq!((open.requested.clone(), open.by.as_str()), (Some(vec!["steps=3".to_string()]), "pages:ada"));
    assert_eq!(location, format!("../../workflows/train.yaml?started={}", open.run));
    let (_, _, text) = served.get(&format!("/workflows/train.yaml?started={}", open.run), VIEWER).await;
    assert!(text.contains("was requested") && text.contains("waiting or running"), "{text}");
}

#[tokio::test]
async fn wrong_values_and_other_files_are_refused() {
    let served = Served::new().await;
    served.file("train.yaml", FILE).await;
    for (fields, part) in [
        ("", "`steps` has no value"),
        ("p.steps=0", "must be at least 1"),
        ("p.steps=1&p.mode=x", "cannot be `x`"),
        ("p.steps=1&p.@/etc/passwd=1", "no name of a param"),
        ("p.steps=1&p.other=1", "no param `other`"),
    ] {
        let (status, _, text) = served.post("/workflows/train.yaml/runs", OPERATOR, fields).await;
        assert_eq!(status, 400, "{fields}: {text}");
        assert!(text.contains(part), "{part} in {text}");
    }
    for file in ["other.yaml", "..%2Ftrain.yaml", "%2Fetc%2Fpasswd"] {
        assert_eq!(served.get(&format!("/workflows/{file}"), OPERATOR).await.0, 404, "{file}");
        assert_eq!(served.post(&format!("/workflows/{file}/runs"), OPERATOR, "").await.0, 404, "{file}");
    }
    let (_, _, text) = served.get("/workflows/train.yaml?p.steps=%3Cscript%3E", OPERATOR).await;
    assert!(text.contains("&lt;script&gt;") && !text.contains("<script>"), "{text}");
    assert!(ScheduleLog::open(&served.store, "train").await.unwrap().state().open.is_empty());
}

#[tokio::test]
async fn forms_of_others_are_refused() {
    let served = Served::new().await;
    served.file("train.yaml", FILE).await;
    served.assert_guarded("/workflows/train.yaml/runs").await;
    assert!(ScheduleLog::open(&served.store, "train").await.unwrap().state().open.is_empty());
}
