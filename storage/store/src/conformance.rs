//! Contains the checks that every store must pass, on a disk, in memory or in a bucket: the guarantees of
//! `docs/design/0004`.
//!
//! Call [`suite`] with a fresh prefix. A failed check panics with a message about the guarantee.

mod attempts;

use crate::connection::CreateOutcome;
use crate::fetch::FetchMode;
use crate::garbage::GarbagePolicy;
use crate::journal::{AppendError, JournalReader, JournalWriter};
use crate::layout;
use crate::manifests::{NewestManifest, PublishOutcome};
use crate::options::StoreOptions;
use crate::store::Store;
use bytes::Bytes;
use futures::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;
use trainyard_core::artifact::{GenerationReason, Provenance};
use trainyard_core::attempt::{AttemptInput, CheckpointRecord};
use trainyard_core::{ArtifactKind, Digest, ErrorKind, FileEntry, Manifest, Output, RunId, StageKey};

/// Writers in the opening race.
const CONCURRENT_WRITERS: usize = 64;

/// The coarsest time resolution of stores, and a little more.
const SECOND: Duration = Duration::from_millis(1_100);

/// Runs every check on the store at `url`, whose prefix must be fresh. `scratch` is an empty local folder. Panics if a
/// check fails.
pub async fn suite(url: &str, scratch: &Path) {
    let store = open(url, false).await;
    race_for_one_name(url).await;
    puts_repeat_and_list(&store).await;
    objects_are_content(&store, scratch).await;
    publication_is_at_most_once(&store).await;
    outputs_come_back(&store, scratch).await;
    damaged_objects_are_noticed_by_readers(url, &store, scratch).await;
    damaged_objects_are_healed_by_writers(&store, scratch).await;
    damaged_manifests_are_followed_by_the_next(&store).await;
    resume_points_are_complete_ones(&store, scratch).await;
    journals_are_fenced(&store).await;
    attempts::leave_files(&store).await;
    attempts::heartbeat_and_cancel(&store).await;
    garbage_is_what_is_unreferenced(&store, scratch).await;
    read_only_refuses(url).await;
}

/// Checks that one of 64 writers, on separate connections, wins the name, and all others see its bytes.
pub async fn race_for_one_name(url: &str) {
    let stores = join_all((0..8).map(|_| open(url, false))).await;
    let tasks = (0..CONCURRENT_WRITERS).map(|i| {
        let store = stores[i % stores.len()].clone();
        tokio::spawn(
            async move { (i, store.create("schedules/race/tick", body(i)).await.expect("a race has no errors")) },
        )
    });
    let outcomes: Vec<_> = join_all(tasks).await.into_iter().map(|done| done.expect("no writer panics")).collect();
    let winners: Vec<_> =
        outcomes.iter().filter(|(_, created)| *created == CreateOutcome::Ours).map(|(i, _)| *i).collect();
    assert_eq!(winners.len(), 1, "exactly one writer wins, not {winners:?}");
    let won = body(winners[0]);
    let losers_agree =
        outcomes.iter().all(|(i, created)| *i == winners[0] || *created == CreateOutcome::Theirs(won.clone()));
    assert!(losers_agree, "all losers see the winner's bytes");
    assert_eq!(stores[0].get("schedules/race/tick").await.expect("readable"), Some(won));
}

fn body(i: usize) -> Bytes {
    Bytes::from(format!("writer {i}\n"))
}

async fn puts_repeat_and_list(store: &Store) {
    let put = |path: &'static str, text: &'static str| store.create(path, Bytes::from_static(text.as_bytes()));
    assert_eq!(put("runs/2026-01/a/x", "one").await, Ok(CreateOutcome::Ours));
    assert_eq!(put("runs/2026-01/a/x", "one").await, Ok(CreateOutcome::Ours), "our own bytes are success");
    assert_eq!(put("runs/2026-01/a/x", "two").await, Ok(CreateOutcome::Theirs(Bytes::from_static(b"one"))));
    assert_eq!(put("runs/2026-02/b@5bc=1@5d/y", "").await, Ok(CreateOutcome::Ours), "an empty file and escaped names");
    assert_eq!(store.get("runs/2026-01/a/none").await, Ok(None));
    assert_eq!(store.get("runs/2026-01/a").await, Ok(None), "a folder is not a file");
    assert_eq!(store.list("runs").await.expect("lists"), ["runs/2026-01/a/x", "runs/2026-02/b@5bc=1@5d/y"]);
    assert_eq!(store.list("nowhere").await, Ok(vec![]));
    assert_eq!(store.list_folders("runs").await.expect("lists"), ["2026-01", "2026-02"]);
    assert_eq!(store.list_runs().await.expect("lists"), [RunId("a".into()), RunId("b@5bc=1@5d".into())]);
    assert_eq!(store.fire_tick("nightly", "t1", Bytes::from_static(b"a")).await, Ok(CreateOutcome::Ours));
    assert_eq!(
        store.fire_tick("nightly", "t1", Bytes::from_static(b"b")).await,
        Ok(CreateOutcome::Theirs(Bytes::from_static(b"a")))
    );
}

async fn objects_are_content(store: &Store, scratch: &Path) {
    let (digest, size) = store.put_object(Bytes::from_static(b"payload")).await.expect("stores");
    assert_eq!((digest.clone(), size), (Digest::of(b"payload"), 7));
    assert_eq!(store.put_object(Bytes::from_static(b"payload")).await, Ok((digest.clone(), 7)), "twice is once");
    assert_eq!(store.has_object(&digest, 7).await, Ok(true));
    assert_eq!(store.has_object(&digest, 8).await, Ok(false), "another size is another object");
    assert_eq!(store.read_object(&digest).await.expect("reads").as_ref(), b"payload");
    assert_eq!(store.read_object(&Digest::of(b"none")).await.expect_err("missing").kind, ErrorKind::Lost);
    // Large enough for an upload in three parts.
    let large: Vec<u8> = (0..(17 << 20) + 5u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = scratch.join("large");
    std::fs::write(&file, &large).expect("scratch is writable");
    let (digest, size) = store.put_object_file(&file).await.expect("stores");
    assert_eq!((digest.clone(), size), (Digest::of(&large), large.len() as u64));
    assert_eq!(store.read_object(&digest).await.expect("reads").len(), large.len());
    assert_eq!(store.put_object_file(&scratch.join("none")).await.expect_err("missing").kind, ErrorKind::Invalid);
}

/// Returns a manifest with one file output of these bytes, whose object is stored.
async fn manifest(store: &Store, name: &str, generation: u32, payload: &'static [u8]) -> Manifest {
    let (digest, size) = store.put_object(Bytes::from_static(payload)).await.expect("stores");
    let file = FileEntry { path: "sub/data.bin".into(), digest, size };
    let output = Output::new(ArtifactKind::Files, vec![file], None, BTreeMap::new()).expect("an output");
    Manifest {
        format: 1,
        stage_digest: Digest::of(name.as_bytes()),
        generation,
        reason: (generation > 0).then_some(GenerationReason::Rerun),
        kind: "noop".into(),
        kind_version: 1,
        config: json!({}),
        inputs: BTreeMap::new(),
        outputs: BTreeMap::from([("files".to_string(), output)]),
        metrics: BTreeMap::from([("accuracy".to_string(), 0.5)]),
        comparisons: Vec::new(),
        provenance: Provenance { workflow: "w".into(), run: run_id(), stage: StageKey("s".into()), attempt: 1 },
        measured: BTreeMap::new(),
    }
}

fn run_id() -> RunId {
    RunId("20260102-030405-00000a".into())
}

async fn publication_is_at_most_once(store: &Store) {
    let first = manifest(store, "published", 0, b"first").await;
    assert_eq!(store.manifest(&first.stage_digest).await, Ok(None));
    assert_eq!(store.publish(&first).await, Ok(PublishOutcome::Ours));
    assert_eq!(store.publish(&first).await, Ok(PublishOutcome::Ours), "a repeated publication is ours");
    let mut second = manifest(store, "published", 0, b"second").await;
    assert_eq!(
        store.publish(&second).await,
        Ok(PublishOutcome::Theirs(Box::new(first.clone()))),
        "the winner's outputs are adopted"
    );
    second.generation = 2;
    second.reason = Some(GenerationReason::Lost);
    assert_eq!(store.publish(&second).await.expect_err("a hole").kind, ErrorKind::Bug);
    second.generation = 1;
    assert_eq!(store.publish(&second).await, Ok(PublishOutcome::Ours));
    assert_eq!(store.manifest(&first.stage_digest).await, Ok(Some(second.clone())), "the highest generation counts");
    assert_eq!(
        store.manifest_at(&first.stage_digest, 0).await,
        Ok(Some(first.clone())),
        "the previous generation stays"
    );
    assert_eq!(
        store.list_manifests().await,
        Ok(vec![(first.stage_digest.clone(), 0), (first.stage_digest.clone(), 1)])
    );
    let mut broken = manifest(store, "broken", 0, b"third").await;
    broken.metrics.insert("loss".into(), f64::NAN);
    assert_eq!(store.publish(&broken).await.expect_err("NaN").kind, ErrorKind::Data);
    broken.metrics.clear();
    broken.outputs.get_mut("files").expect("it has one").files[0].digest = Digest::of(b"never stored");
    assert_eq!(store.publish(&broken).await.expect_err("no object").kind, ErrorKind::Lost);
    assert_eq!(store.manifest(&broken.stage_digest).await, Ok(None), "nothing is published by halves");
}

async fn outputs_come_back(store: &Store, scratch: &Path) {
    let manifest = manifest(store, "fetched", 0, b"fetch me").await;
    let output = &manifest.outputs["files"];
    for _ in 0..2 {
        store.fetch_output(output, &scratch.join("fetched")).await.expect("fetches, also over itself");
        assert_eq!(std::fs::read(scratch.join("fetched/sub/data.bin")).expect("it is there"), b"fetch me");
    }
    // Replaces an earlier fetch, which may be a link into the store.
    let input = AttemptInput {
        output_name: "files".into(),
        stage_digest: manifest.stage_digest.clone(),
        generation: manifest.generation,
        output: output.clone(),
    };
    store.fetch_input(&input, &scratch.join("fetched"), FetchMode::Copy).await.expect("copies");
    let copy = scratch.join("fetched/sub/data.bin");
    assert_eq!(std::fs::read(&copy).expect("it is there"), b"fetch me");
    std::fs::set_permissions(&copy, Permissions::from_mode(0o644)).expect("it is ours");
    std::fs::write(&copy, b"scribble").expect("it is ours");
    store.fetch_output(output, &scratch.join("again")).await.expect("a change of a copy does not reach the store");
    assert_eq!(store.discard_corrupt(&output.files[0].digest).await, Ok(false), "a sound object stays");
    let mut gone = output.clone();
    gone.files[0].digest = Digest::of(b"never stored");
    assert_eq!(store.fetch_output(&gone, &scratch.join("gone")).await.expect_err("missing").kind, ErrorKind::Lost);
    gone.files[0].path = "../out".into();
    assert_eq!(store.fetch_output(&gone, &scratch.join("gone")).await.expect_err("escapes").kind, ErrorKind::Data);
}

/// Puts other bytes under an object's name, as a bad disk would.
async fn overwrite(store: &Store, digest: &Digest, bytes: impl Into<Bytes>) {
    store.upload_bytes(&layout::object(digest), bytes.into()).await.expect("overwrites");
}

async fn damaged_objects_are_noticed_by_readers(url: &str, store: &Store, scratch: &Path) {
    let folder = scratch.join("damaged");
    let manifest = manifest(store, "damaged", 0, b"sound bytes").await;
    store.publish(&manifest).await.expect("publishes");
    let output = &manifest.outputs["files"];
    let digest = &output.files[0].digest;
    overwrite(store, digest, "other bytes").await;
    assert_eq!(store.has_objects(&output.files).await, Ok(true), "neither name nor size tells");
    let error = open(url, true).await.fetch_output(output, &folder).await.expect_err("damaged");
    assert_eq!(error.kind, ErrorKind::Data);
    assert!(error.help.is_some_and(|help| help.contains("--rerun")), "who may not write cannot remove it");
    assert_eq!(store.has_objects(&output.files).await, Ok(true));
    let (stage_digest, output_name) = (manifest.stage_digest.clone(), "files".to_string());
    let input = AttemptInput { stage_digest, generation: 0, output_name, output: output.clone() };
    let error = store.fetch_input(&input, &folder, FetchMode::Link).await.expect_err("damaged");
    assert_eq!(error.kind, ErrorKind::Data);
    assert!(
        error.message.contains("output `files` of stage `s`") && error.message.contains(digest.as_str()),
        "{error}"
    );
    assert!(!folder.join("sub/data.bin").exists(), "no wrong byte gets into the folder");
    assert_eq!(store.has_objects(&output.files).await, Ok(false), "the next lookup finds it missing");
    assert_eq!(store.fetch_input(&input, &folder, FetchMode::Link).await.expect_err("gone").kind, ErrorKind::Lost);
    overwrite(store, digest, "other bytes").await;
    assert_eq!(store.read_object(digest).await.expect_err("damaged").kind, ErrorKind::Data);
    assert_eq!(store.read_object(digest).await.expect_err("gone").kind, ErrorKind::Lost);
    store.put_object(Bytes::from_static(b"sound bytes")).await.expect("stores");
    assert_eq!(store.damaged(digest).await.kind, ErrorKind::Retryable, "a sound object was damaged in transit");
    assert_eq!(store.has_objects(&output.files).await, Ok(true));
}

async fn damaged_objects_are_healed_by_writers(store: &Store, scratch: &Path) {
    let (digest, _) = store.put_object(Bytes::from_static(b"made twice")).await.expect("stores");
    overwrite(store, &digest, "made wrong").await;
    assert_eq!(store.put_object(Bytes::from_static(b"made twice")).await, Ok((digest.clone(), 10)));
    assert_eq!(store.read_object(&digest).await.expect("reads").as_ref(), b"made twice");
    // Small files are uploaded in one request, large ones in parts.
    for size in [1 << 10, 9 << 20] {
        let (file, bytes) = (scratch.join("made twice"), vec![7u8; size]);
        std::fs::write(&file, &bytes).expect("scratch is writable");
        let (digest, _) = store.put_object_file(&file).await.expect("stores");
        overwrite(store, &digest, vec![8u8; size]).await;
        store.put_object_file(&file).await.expect("stores");
        assert!(store.read_object(&digest).await.expect("reads") == bytes, "{size} bytes are sound again");
    }
}

async fn damaged_manifests_are_followed_by_the_next(store: &Store) {
    let mut next = manifest(store, "half written", 1, b"half written").await;
    let stage = next.stage_digest.clone();
    store.create(&layout::manifest(&stage, 0), Bytes::new()).await.expect("puts");
    let newest = store.newest(&stage).await.expect("looks");
    assert!(matches!(newest, NewestManifest::Damaged { generation: 0, .. }), "{newest:?}");
    assert_eq!(store.manifest(&stage).await.expect_err("damaged").kind, ErrorKind::Data);
    next.reason = Some(GenerationReason::Lost);
    assert_eq!(store.publish(&next).await, Ok(PublishOutcome::Ours));
    assert_eq!(store.newest(&stage).await, Ok(NewestManifest::Sound(Box::new(next.clone()))));
    assert_eq!(store.manifest(&stage).await, Ok(Some(next)), "a damaged generation does not hide later ones");
}

/// Returns the newest complete checkpoint.
async fn resume_point(store: &Store, scratch: &Path, stage: &Digest) -> Option<CheckpointRecord> {
    let (record, folder) = store.fetch_checkpoint(stage, &scratch.join("resume")).await.expect("fetches").found?;
    assert!(record.files.iter().all(|file| folder.join(&file.path).exists()), "its files are there");
    Some(record)
}

async fn resume_points_are_complete_ones(store: &Store, scratch: &Path) {
    let stage = Digest::of(b"long stage");
    assert_eq!(resume_point(store, scratch, &stage).await, None);
    let mut record = CheckpointRecord { format: 1, stage_digest: stage.clone(), step: 0, attempt: 1, files: vec![] };
    for step in [5, 90, 100] {
        let (digest, size) = store.put_object(Bytes::from(format!("weights {step}"))).await.expect("stores");
        record = CheckpointRecord { step, files: vec![FileEntry { path: "w".into(), digest, size }], ..record };
        store.save_checkpoint(&record).await.expect("saves");
    }
    assert_eq!(resume_point(store, scratch, &stage).await, Some(record.clone()));
    let kept = [layout::checkpoint(&stage, 90, 1), layout::checkpoint(&stage, 100, 1)];
    assert_eq!(store.list(&layout::checkpoints(&stage)).await.expect("lists"), kept, "the newest two are kept");
    let unstored = CheckpointRecord {
        step: 110,
        files: vec![FileEntry { path: "w".into(), digest: Digest::of(b"no"), size: 2 }],
        ..record.clone()
    };
    assert_eq!(store.save_checkpoint(&unstored).await.expect_err("no object").kind, ErrorKind::Lost);
    let text = serde_json::to_vec(&unstored).expect("a form");
    store.create(&layout::checkpoint(&stage, 110, 1), text.into()).await.expect("puts");
    assert_eq!(resume_point(store, scratch, &stage).await, Some(record.clone()), "an incomplete one is passed over");
    overwrite(store, &record.files[0].digest, "weights 1OO").await;
    let fetched = store.fetch_checkpoint(&stage, &scratch.join("resume")).await.expect("fetches");
    assert_eq!(fetched.found.map(|(record, _)| record.step), Some(90), "a damaged one is passed over");
    let [incomplete, damaged] = &fetched.skipped[..] else { panic!("{:?}", fetched.skipped) };
    assert!(incomplete.step == 110 && incomplete.reason.contains("is missing"), "{incomplete:?}");
    assert!(damaged.step == 100 && damaged.reason.contains("is damaged"), "{damaged:?}");
}

async fn journals_are_fenced(store: &Store) {
    let run = run_id();
    let opened = |epoch| json!({"type": "writer_opened", "epoch": epoch});
    let event = |n: u32| json!({"type": "event", "n": n});
    let (mut old, before) = JournalWriter::open(store, &run, "old", opened).await.expect("opens");
    assert_eq!((before, old.epoch(), old.position()), (Vec::<Value>::new(), 1, 1));
    assert_eq!(old.append(&[event(1), event(2)]).await, Ok(1));
    assert_eq!(old.append::<Value>(&[]).await, Ok(2), "an empty batch is a batch");
    let (mut new, before) = JournalWriter::open(store, &run, "new", opened).await.expect("takes over");
    assert_eq!(before, [opened(1), event(1), event(2)]);
    assert_eq!(new.epoch(), 2);
    let Err(AppendError::Fenced(fenced)) = old.append(&[event(3)]).await else { panic!("the old writer is fenced") };
    assert_eq!((fenced.owner.as_str(), fenced.epoch, fenced.seq), ("new", 2, 3));
    assert_eq!(new.append(&[event(4)]).await, Ok(4));
    assert!(matches!(old.append(&[event(5)]).await, Err(AppendError::Fenced(_))), "a fenced writer stays fenced");
    let batches = JournalReader::read_all(store, &run).await.expect("the chain holds");
    let events: Vec<_> = batches.iter().flat_map(|b| b.events.clone()).collect();
    assert_eq!(events, [opened(1), event(1), event(2), opened(2), event(4)]);
    assert_eq!(batches.iter().map(|b| b.header.epoch).collect::<Vec<_>>(), [1, 1, 1, 2, 2]);
}

async fn garbage_is_what_is_unreferenced(store: &Store, scratch: &Path) {
    let named = manifest(store, "garbage", 0, b"named").await;
    store.publish(&named).await.expect("publishes");
    let (orphan, _) = store.put_object(Bytes::from_static(b"orphan")).await.expect("stores");
    // Some stores report the time of one object in whole seconds but in a listing in milliseconds, so that for the rest
    // of its second an object has a negative age.
    tokio::time::sleep(SECOND).await;
    let young = store.garbage_plan(&GarbagePolicy::from(Duration::from_secs(3600))).await.expect("plans");
    assert!(young.objects.is_empty() && young.young > 0, "young objects are kept");
    let plan = store.garbage_plan(&GarbagePolicy::from(Duration::ZERO)).await.expect("plans");
    assert!(plan.objects.iter().any(|(path, size)| *path == layout::object(&orphan) && *size == 6));
    assert_eq!(store.has_object(&orphan, 6).await, Ok(true), "a plan removes nothing");
    let done = store.collect_garbage(&plan).await.expect("removes");
    assert_eq!((done.files, done.bytes), (plan.objects.len() as u64, plan.bytes()));
    assert_eq!(store.has_object(&orphan, 6).await, Ok(false));
    assert_eq!(store.has_objects(&named.outputs["files"].files).await, Ok(true), "referenced files stay");
    assert!(resume_point(store, scratch, &Digest::of(b"long stage")).await.is_some(), "resume points stay whole");
}

async fn read_only_refuses(url: &str) {
    let store = open(url, true).await;
    assert!(store.get("schedules/race/tick").await.expect("reads").is_some());
    let error = store.create("runs/x", Bytes::new()).await.expect_err("refused");
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("runs/x") && error.message.contains("read-only"), "{error}");
    assert_eq!(store.put_object(Bytes::from_static(b"new")).await.expect_err("refused").kind, ErrorKind::Invalid);
}

async fn open(url: &str, read_only: bool) -> Store {
    Store::open(url, StoreOptions { read_only, ..StoreOptions::default() }).await.expect("the store opens")
}
