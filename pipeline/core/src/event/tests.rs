//! Tests events in the journal's form, including events of later versions.

use super::*;
use serde_json::json;

#[test]
fn records_survive_the_journal() {
    let record = EventRecord {
        at: 12,
        event: Event::AttemptEnded {
            stage: StageKey("rl[seed=1]".into()),
            attempt: 2,
            outcome: AttemptOutcome::TimedOut,
            error: Some(Error::retryable("6h were up")),
        },
    };
    let value = record.to_value().unwrap();
    assert_eq!(value["type"], "attempt_ended");
    assert_eq!(value["at"], 12);
    assert_eq!(EventRecord::from_value(&value).unwrap(), record);
    let beat = EventRecord { at: 1, event: Event::Heartbeat {} };
    assert_eq!(EventRecord::from_value(&beat.to_value().unwrap()).unwrap(), beat);
    assert_eq!(serde_json::to_string(&beat).unwrap(), r#"{"at":1,"type":"heartbeat"}"#);
}

#[test]
fn later_events_and_fields_are_accepted() {
    assert_eq!(
        EventRecord::from_value(&json!({"at": 3, "type": "invented_later", "x": 1})).unwrap(),
        EventRecord { at: 3, event: Event::Unknown }
    );
    let skipped = json!({"at": 3, "type": "skipped", "stage": "a", "why": "when", "more": [1]});
    assert!(matches!(EventRecord::from_value(&skipped).unwrap().event, Event::Skipped { .. }));
    let opened = json!({"type": "writer_opened", "epoch": 4});
    assert_eq!(
        EventRecord::from_value(&opened).unwrap(),
        EventRecord { at: 0, event: Event::WriterOpened { epoch: 4, writer: String::new() } }
    );
}

#[test]
fn parse_error_names_the_event() {
    let error = EventRecord::from_value(&json!({"type": "attempt_started", "stage": "a"})).unwrap_err();
    assert!(error.message.contains("attempt_started"), "{error}");
}
