//! What an attempt makes of its URL, its spec and its sources.

use super::{guard_sources, open};
use serde_json::json;
use std::collections::BTreeMap;
use trainyard_core::attempt::{AttemptResources, AttemptSpec};
use trainyard_core::{Digest, ErrorKind, RunId, StageKey};
use trainyard_store::{Store, StoreOptions, layout};

fn spec() -> AttemptSpec {
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
        resources: AttemptResources { cpus: 1, memory: 0, gpus: Vec::new() },
        timeout_millis: None,
        env: BTreeMap::new(),
        secrets: BTreeMap::new(),
        sources: BTreeMap::new(),
        fsync: false,
    }
}

#[tokio::test]
async fn the_spec_says_how_durable_the_store_is_whatever_its_path_holds() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("c#/st#1");
    let store = Store::open(place.to_str().unwrap(), StoreOptions::default()).await.unwrap();
    for (attempt, fsync) in [(1, false), (2, true)] {
        let put = AttemptSpec { attempt, fsync, ..spec() };
        store.put_spec(&put).await.unwrap();
        let url = format!("{}#{}", store.url(), layout::attempt(&put.run, &put.stage, attempt));
        let (opened, found) = open(&url).await.unwrap();
        assert_eq!((opened.options().durability_fsync, found), (fsync, put));
    }
}

#[test]
fn a_spec_without_the_newer_fields_is_read() {
    let older = serde_json::to_value(spec()).unwrap();
    assert!(older.get("sources").is_none() && older.get("fsync").is_none(), "{older}");
    assert_eq!(serde_json::from_value::<AttemptSpec>(older).unwrap(), spec());
}

#[test]
fn sources_are_held_against_the_plan_before_the_work_and_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("train.py");
    std::fs::write(&file, "old").unwrap();
    let spec = AttemptSpec { sources: BTreeMap::from([(file.display().to_string(), Digest::of(b"old"))]), ..spec() };
    assert_eq!(guard_sources(&spec, || Ok(())), Ok(()));
    let edit = || {
        std::fs::write(&file, "new").unwrap();
        Ok(())
    };
    let after = guard_sources(&spec, edit).unwrap_err();
    let before = guard_sources(&spec, || panic!("the work began with other content")).unwrap_err();
    for error in [after, before] {
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.ends_with("train.py changed since the plan was made") && error.help.is_some(), "{error}");
    }
    std::fs::remove_file(&file).unwrap();
    assert!(guard_sources(&spec, || Ok(())).unwrap_err().message.ends_with("is gone since the plan was made"));
}
