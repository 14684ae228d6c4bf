//! Tests the buttons of a run and their handlers.

use super::*;
use crate::access::PageUser;
use crate::fixture::{NOW, OPERATOR, Served, VIEWER};
use crate::links::Links;
use serde_json::json;
use trainyard_core::event::{Event, EventRecord};
use trainyard_store::{JournalWriter, layout};

const RUN: &str = "20261121-041530-0000abc";

fn buttons(status: &str, may_change: bool, has_daemon: bool) -> String {
    let user = PageUser { name: "ada".into(), may_change, form_key: "key".into() };
    let mut links = Links::from_path("/runs/r");
    links.has_daemon = has_daemon;
    of_run(&PageRequest { links, user }, RUN, status).into_string()
}

#[test]
fn buttons_fit_the_status_and_the_rights() {
    let running = buttons("running", true, true);
    assert!(running.contains("action=\"../runs/20261121-041530-0000abc/cancel\""), "{running}");
    assert!(running.contains("name=\"form_key\" value=\"key\"") && running.contains("data-confirm="), "{running}");
    assert!(!running.contains("/resume"), "{running}");
    let unfinished = buttons("unfinished", true, true);
    assert!(unfinished.contains("/cancel") && unfinished.contains("/resume"), "{unfinished}");
    for status in ["failed", "cancelled"] {
        let text = buttons(status, true, true);
        assert!(text.contains("/resume") && !text.contains("/cancel"), "{text}");
    }
    for text in [
        buttons("succeeded", true, true),
        buttons("damaged", true, true),
        buttons("running", false, true),
        buttons("running", true, false),
    ] {
        assert_eq!(text, "");
    }
}

/// Begins a run whose writer is a process that does not exist any more.
async fn begin(served: &Served) {
    let event = |value| EventRecord { at: NOW, event: serde_json::from_value::<Event>(value).unwrap() };
    let opened = |epoch| event(json!({"type": "writer_opened", "epoch": epoch, "writer": "gone"})).to_value().unwrap();
    let (mut writer, _) = JournalWriter::open(&served.store, &RunId(RUN.into()), "gone", opened).await.unwrap();
    let created = json!({
        "type": "run_created", "format": 1, "workflow": "w", "source": "/w.yaml",
        "plan_digest": trainyard_core::Digest::of(b"p"), "params": {}, "stages": [],
    });
    writer.append(&[event(created).to_value().unwrap()]).await.unwrap();
}

#[tokio::test]
async fn forms_cancel_and_resume_a_run() {
    let served = Served::new().await;
    begin(&served).await;
    let resume = format!("/runs/{RUN}/resume");
    let (status, location, text) = served.post(&resume, OPERATOR, "").await;
    assert_eq!((status, location.as_str()), (303, "../../runs/20261121-041530-0000abc"), "{text}");
    assert_eq!(*served.effects.resumed.lock().unwrap(), [RunId(RUN.into())]);
    assert_eq!(served.post(&format!("/runs/{RUN}/cancel"), OPERATOR, "").await.0, 303);
    for _ in 0..200 {
        // The writer may be on another host, so the request is stored for it.
        let view = find::view(&served.store, &RunId(RUN.into())).await.unwrap();
        let request = layout::cancel(&RunId(RUN.into()), view.writer.epoch);
        if served.store.get(&request).await.unwrap().is_some() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the run was not asked to stop within 10 s");
}

#[tokio::test]
async fn runs_that_do_not_exist_and_forms_of_others_are_refused() {
    let served = Served::new().await;
    begin(&served).await;
    for run in ["20200101-000000-0000000", "..%2F..%2Fobjects", "x"] {
        for action in ["cancel", "resume"] {
            let (status, _, text) = served.post(&format!("/runs/{run}/{action}"), OPERATOR, "").await;
            assert_eq!(status, 404, "{run} {action}: {text}");
        }
    }
    for action in ["cancel", "resume"] {
        served.assert_guarded(&format!("/runs/{RUN}/{action}")).await;
        assert_eq!(served.get(&format!("/runs/{RUN}/{action}"), VIEWER).await.0, 405);
    }
    assert!(served.effects.resumed.lock().unwrap().is_empty());
}
