//! Tests the URL, the spec and the sources of an attempt.

use super::checkpoints::StoredCheckpoints;
use super::setup::open;
use super::store_wait::StoreWait;
use super::{UploadPaths, guard_sources};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use trainyard_api::{CheckpointStore as _, Reporter};
use trainyard_core::attempt::{AttemptMessage, AttemptResources, AttemptSpec, LogLevel};
use trainyard_core::{Digest, ErrorKind, RunId, StageKey};
use trainyard_store::{Store, StoreOptions, layout};

/// Returns the spec of an attempt without inputs and outputs.
pub fn spec() -> AttemptSpec {
    AttemptSpec {
        format: 1,
        workflow: "w".into(),
        run: RunId("20261121-000000-000000".into()),
        stage: StageKey("a".into()),
        attempt: 1,
        stage_digest: Digest::of(b"a"),
        kind: "run".into(),
        kind_version: 1,
        config: json!({}),
        inputs: BTreeMap::new(),
        outputs: BTreeMap::new(),
        resources: AttemptResources::default(),
        timeout_millis: None,
        env: BTreeMap::new(),
        secrets: BTreeMap::new(),
        withheld: BTreeMap::new(),
        sources: BTreeMap::new(),
        uploaded: BTreeMap::new(),
        orphan_timeout_millis: None,
        fsync: false,
        store_outage_millis: None,
        peers: Vec::new(),
        wait_millis: None,
    }
}

#[tokio::test]
async fn store_options_come_from_the_spec() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("c#/st#1");
    let store = Store::open(place.to_str().unwrap(), StoreOptions::default()).await.unwrap();
    for (attempt, fsync, store_outage_millis) in [(1, false, None), (2, true, Some(90_000))] {
        let put = AttemptSpec { attempt, fsync, store_outage_millis, ..spec() };
        store.put_spec(&put).await.unwrap();
        let url = format!("{}#{}", store.url(), layout::attempt(&put.run, &put.stage, attempt));
        let (opened, found) = open(&url).await.unwrap();
        assert_eq!(opened.options().outage.as_secs(), if fsync { 90 } else { 600 });
        assert_eq!((opened.options().durability_fsync, found), (fsync, put));
    }
    let gone = place.with_file_name("gone");
    let error = open(&format!("{}#runs/x", gone.display())).await.unwrap_err();
    assert!(error.message.contains("there is no store at") && !gone.exists(), "{error}");
}

#[test]
fn spec_without_newer_fields_is_read() {
    let older = serde_json::to_value(spec()).unwrap();
    for newer in ["sources", "uploaded", "orphan_timeout_millis", "fsync", "store_outage_millis"] {
        assert!(older.get(newer).is_none(), "{older}");
    }
    assert_eq!(serde_json::from_value::<AttemptSpec>(older).unwrap(), spec());
}

#[test]
fn sources_are_verified_before_and_after_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("train.py");
    std::fs::write(&file, "old").unwrap();
    let spec = AttemptSpec { sources: BTreeMap::from([(file.display().to_string(), Digest::of(b"old"))]), ..spec() };
    assert_eq!(guard_sources(&spec, &UploadPaths::new(), || Ok(())), Ok(()));
    let edit = || {
        std::fs::write(&file, "new").unwrap();
        Ok(())
    };
    let after = guard_sources(&spec, &UploadPaths::new(), edit).unwrap_err();
    let before =
        guard_sources(&spec, &UploadPaths::new(), || panic!("the work started with other content")).unwrap_err();
    for error in [after, before] {
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.ends_with("train.py changed since the plan was made") && error.help.is_some(), "{error}");
    }
    std::fs::remove_file(&file).unwrap();
    assert!(
        guard_sources(&spec, &UploadPaths::new(), || Ok(()))
            .unwrap_err()
            .message
            .ends_with("was removed since the plan was made")
    );
}

/// Reporter that records all messages.
#[derive(Default)]
pub struct RecordingReporter(pub Mutex<Vec<AttemptMessage>>);

impl Reporter for RecordingReporter {
    fn report(&self, message: AttemptMessage) {
        self.0.lock().unwrap().push(message);
    }
}

#[test]
fn unstored_resume_point_is_a_warning() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let (files, restored) = (scratch.path().join("files"), scratch.path().join("restored"));
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("state.json"), "{}").unwrap();
    let open = |read_only| {
        let options = StoreOptions { read_only, ..StoreOptions::default() };
        runtime.block_on(Store::open("memory://resume-points", options)).unwrap()
    };
    let reporter = Arc::new(RecordingReporter::default());
    let points = |read_only| {
        let wait = StoreWait { handle: runtime.handle().clone(), killed: None };
        StoredCheckpoints::new(open(read_only), wait, &spec(), restored.clone(), reporter.clone())
    };
    points(true).save(1, &files).unwrap();
    assert_eq!(points(true).latest().unwrap(), None);
    points(false).save(2, &files).unwrap();
    assert_eq!(points(true).latest().unwrap().map(|(step, _)| step), Some(2));
    let missing = points(false).save(3, &scratch.path().join("none"));
    assert!(missing.is_err(), "a missing folder is an error");
    let messages = reporter.0.lock().unwrap();
    let [AttemptMessage::Log { level: LogLevel::Warn, text }, AttemptMessage::Checkpoint { step: 2 }] = &messages[..]
    else {
        panic!("{messages:?}")
    };
    assert!(text.starts_with("the resume point of step 1 was not stored") && text.contains("read-only"), "{text}");
}

#[test]
fn skipped_resume_points_are_warnings() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let files = scratch.path().join("files");
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("state.json"), "{}").unwrap();
    let store = runtime.block_on(Store::open("memory://skipped-points", StoreOptions::default())).unwrap();
    let unreadable = layout::checkpoint(&spec().stage_digest, 9, 1);
    runtime.block_on(store.create(&unreadable, "{half".into())).unwrap();
    let reporter = Arc::new(RecordingReporter::default());
    let wait = StoreWait { handle: runtime.handle().clone(), killed: None };
    let points = StoredCheckpoints::new(store, wait, &spec(), scratch.path().join("restored"), reporter.clone());
    assert_eq!(points.latest().unwrap(), None);
    points.save(5, &files).unwrap();
    assert_eq!(points.latest().unwrap().map(|(step, _)| step), Some(5));
    let messages = reporter.0.lock().unwrap();
    let [
        AttemptMessage::Log { level: LogLevel::Warn, text: alone },
        AttemptMessage::Checkpoint { step: 5 },
        AttemptMessage::Log { level: LogLevel::Warn, text: replaced },
    ] = &messages[..]
    else {
        panic!("{messages:?}")
    };
    for text in [alone, replaced] {
        let begins = text.starts_with("the resume point of step 9 (attempt 1) is skipped: ");
        assert!(begins && text.contains(&format!("{unreadable} is damaged")), "{text}");
    }
    assert!(alone.ends_with("; the stage starts from its beginning"), "{alone}");
    assert!(replaced.ends_with("; the one of step 5 is used instead"), "{replaced}");
}
