//! Tests single steps of a collection by hand-written cases.

use crate::dated::Dated;
use crate::world::{HOUR, Key, MINUTE, digested, finished, hit, manifest, opened, stage, store};
use bytes::Bytes;
use serde_json::json;
use std::sync::Arc;
use trainyard_core::clock::ManualClock;
use trainyard_core::{Clock, Digest, ErrorKind, Manifest, RunId};
use trainyard_store::garbage::Amount;
use trainyard_store::manifests::NewestManifest;
use trainyard_store::{
    CollectedManifest, CreateOutcome, GarbagePlan, GarbagePolicy, GarbageSummary, JournalWriter, PublishOutcome, Store,
    StoreOptions, layout,
};

const DAY: GarbagePolicy =
    GarbagePolicy { older_than: std::time::Duration::from_secs(86_400), keep_last: None, runs_older_than: None };

async fn fresh() -> (Arc<ManualClock>, Store) {
    let clock = Arc::new(ManualClock::at_millis(1_795_000_000_000));
    let store = store(&clock, None).await;
    (clock, store)
}

fn id(number: u32) -> RunId {
    RunId(format!("20261118-000000-00000{number:02}"))
}

async fn publish(store: &Store, key: &Key, run: &RunId, byte: u8, inputs: &[Manifest]) -> Manifest {
    let (file, _) = store.put_object(Bytes::copy_from_slice(&[byte])).await.unwrap();
    let made = manifest(key, &("agent".into(), "sft[seed=1]".into()), run, inputs, &[file]);
    assert_eq!(store.publish(&made).await.unwrap(), PublishOutcome::Ours);
    made
}

async fn has(store: &Store, byte: u8) -> bool {
    store.has_object(&Digest::of(&[byte]), 1).await.unwrap()
}

async fn collect(store: &Store, policy: &GarbagePolicy) -> (GarbagePlan, GarbageSummary) {
    let plan = store.garbage_plan(policy).await.unwrap();
    let done = store.collect_garbage(&plan).await.unwrap();
    (plan, done)
}

#[tokio::test]
async fn result_is_removed_in_two_steps_and_its_record_stays() {
    let (clock, store) = fresh().await;
    let keep = GarbagePolicy { keep_last: Some(1), ..DAY };
    let (old, new) = ((stage(0), 0), (stage(1), 0));
    publish(&store, &old, &id(1), 1, &[]).await;
    publish(&store, &new, &id(2), 2, &[]).await;
    assert_eq!(collect(&store, &keep).await.1, GarbageSummary::default(), "all is young");
    clock.advance(25 * HOUR);
    let (plan, done) = collect(&store, &keep).await;
    assert_eq!((plan.manifests.as_slice(), done.manifests, done.files), (&[old.clone()][..], 1, 0));
    assert!(has(&store, 1).await, "a run may have found it a moment ago");
    let NewestManifest::Damaged { generation: 0, error } = store.newest(&old.0).await.unwrap() else {
        panic!("it is a miss")
    };
    assert!(error.message.ends_with("its files were given up by `artifacts gc` on 2026-11-19"), "{error}");
    assert_eq!(store.manifest_at(&old.0, 0).await.unwrap_err().kind, ErrorKind::Data);
    let record = store.get(&layout::manifest(&old.0, 0)).await.unwrap().unwrap();
    let record = CollectedManifest::parse(&record).unwrap();
    assert_eq!((record.manifest.provenance.run, record.collected), (id(1), clock.unix_millis()));
    clock.advance(23 * HOUR);
    assert_eq!(collect(&store, &keep).await.1, GarbageSummary::default());
    clock.advance(2 * HOUR);
    let (plan, done) = collect(&store, &keep).await;
    assert_eq!(plan.objects, [(layout::object(&Digest::of(&[1])), 1)]);
    assert_eq!((done.files, done.bytes, done.manifests), (1, 1, 0));
    assert!(!has(&store, 1).await && has(&store, 2).await);
    // The stage is computed again as the next generation.
    publish(&store, &(stage(0), 1), &id(3), 1, &[]).await;
    assert!(matches!(store.newest(&old.0).await, Ok(NewestManifest::Sound(made)) if made.generation == 1));
}

#[tokio::test]
async fn references_of_an_unfinished_run_are_kept() {
    let (clock, store) = fresh().await;
    let keep = GarbagePolicy { keep_last: Some(1), ..DAY };
    let (old, new) = ((stage(0), 0), (stage(1), 0));
    publish(&store, &old, &id(1), 1, &[]).await;
    publish(&store, &new, &id(2), 2, &[]).await;
    clock.advance(25 * HOUR);
    collect(&store, &keep).await;
    // The run had looked the stage up just before, and journals it only now.
    let (mut writer, _) = JournalWriter::open(&store, &id(3), "w", opened).await.unwrap();
    writer.append(&[hit(&old)]).await.unwrap();
    clock.advance(1_000 * HOUR);
    let (plan, done) = collect(&store, &keep).await;
    assert_eq!((plan.unfinished, done.files), (vec![id(3)], 0));
    assert!(has(&store, 1).await);
    writer.append(&[finished()]).await.unwrap();
    assert_eq!(collect(&store, &keep).await.1.files, 1);
    assert!(!has(&store, 1).await);
}

#[tokio::test]
async fn keep_last_keeps_results_with_their_lineage() {
    let (clock, store) = fresh().await;
    let base = publish(&store, &(stage(0), 0), &id(1), 1, &[]).await;
    let early = publish(&store, &(stage(1), 0), &id(2), 2, &[base]).await;
    publish(&store, &(stage(2), 0), &id(3), 3, &[]).await;
    publish(&store, &(stage(3), 0), &id(4), 4, &[]).await;
    let (mut writer, _) = JournalWriter::open(&store, &id(5), "w", opened).await.unwrap();
    writer.append(&[hit(&(early.stage_digest, 0)), finished()]).await.unwrap();
    clock.advance(25 * HOUR);
    let keep = GarbagePolicy { keep_last: Some(1), ..DAY };
    let (plan, _) = collect(&store, &keep).await;
    let mut gone = vec![(stage(2), 0), (stage(3), 0)];
    gone.sort();
    assert_eq!(plan.manifests, gone, "the stage that a later run found is the last one");
    let sizes = &plan.stages[0];
    assert_eq!((sizes.workflow.as_deref(), sizes.stage.as_deref()), (Some("agent"), Some("sft")));
    let two = Amount { objects: 2, bytes: 2 };
    assert_eq!((sizes.kept, sizes.given_up, sizes.garbage), (two, two, Amount::default()));
}

#[tokio::test]
async fn a_pin_keeps_a_result_with_its_lineage() {
    let (clock, store) = fresh().await;
    let base = publish(&store, &(stage(0), 0), &id(1), 1, &[]).await;
    publish(&store, &(stage(1), 0), &id(2), 2, &[base]).await;
    publish(&store, &(stage(2), 0), &id(3), 3, &[]).await;
    store.set_pin(&stage(1), 0, true, None).await.unwrap();
    clock.advance(25 * HOUR);
    let keep = GarbagePolicy { keep_last: Some(1), ..DAY };
    assert!(collect(&store, &keep).await.0.is_empty());
    store.set_pin(&stage(1), 0, false, None).await.unwrap();
    assert_eq!(collect(&store, &keep).await.1.manifests, 2);
}

#[tokio::test]
async fn storing_bytes_again_resets_their_age() {
    let (clock, store) = fresh().await;
    store.put_object(Bytes::from_static(b"\x01")).await.unwrap();
    clock.advance(25 * HOUR);
    let plan = store.garbage_plan(&DAY).await.unwrap();
    assert_eq!(plan.objects.len(), 1);
    // An attempt stores the same bytes between the plan and the removal.
    store.put_object(Bytes::from_static(b"\x01")).await.unwrap();
    assert_eq!(store.collect_garbage(&plan).await.unwrap().files, 0);
    clock.advance(10 * MINUTE);
    store.put_object(Bytes::from_static(b"\x01")).await.unwrap();
    clock.advance(24 * HOUR - 10 * MINUTE);
    assert_eq!(store.garbage_plan(&DAY).await.unwrap().objects.len(), 1, "what is young is not written again");
}

#[tokio::test]
async fn finished_run_is_removed_and_unfinished_run_is_kept() {
    let (clock, store) = fresh().await;
    for number in [1, 2] {
        let (mut writer, _) = JournalWriter::open(&store, &id(number), "w", opened).await.unwrap();
        writer.append(&[digested(&stage(0))]).await.unwrap();
        if number == 1 {
            writer.append(&[finished()]).await.unwrap();
        }
        let claim = json!({"run": id(number), "writer": "w"}).to_string();
        store.create(&layout::claim(&stage(9), number.into()), claim.into()).await.unwrap();
        store.create(&format!("{}/s/1/log/000000", layout::attempts(&id(number))), "log".into()).await.unwrap();
    }
    clock.advance(100 * HOUR);
    assert!(collect(&store, &DAY).await.0.is_empty(), "runs stay unless the policy removes them");
    let old = GarbagePolicy { runs_older_than: Some(90 * HOUR), ..DAY };
    assert_eq!(collect(&store, &old).await.1.runs, 1);
    assert_eq!(store.list_runs().await.unwrap(), [id(2)]);
    assert_eq!(store.list(layout::PLANS).await.unwrap(), [layout::claim(&stage(9), 2)]);
    assert_eq!(store.list(&layout::run(&id(2))).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_removed_run_leaves_no_folder_on_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap(), StoreOptions::default()).await.unwrap();
    let (mut writer, _) = JournalWriter::open(&store, &id(1), "w", opened).await.unwrap();
    writer.append(&[finished()]).await.unwrap();
    store.create(&format!("{}/s/1/log/000000", layout::attempts(&id(1))), "log".into()).await.unwrap();
    let now = std::time::Duration::ZERO;
    let all = GarbagePolicy { older_than: now, keep_last: None, runs_older_than: Some(now) };
    assert_eq!(collect(&store, &all).await.1.runs, 1);
    assert!(store.list_runs().await.unwrap().is_empty());
    assert!(!folder.path().join(layout::run(&id(1))).exists());
}

#[tokio::test]
async fn a_run_that_was_resumed_while_it_was_to_be_removed_stays() {
    let (clock, store) = fresh().await;
    let (mut writer, _) = JournalWriter::open(&store, &id(1), "w", opened).await.unwrap();
    let end = writer.append(&[finished()]).await.unwrap() + 1;
    // A collection was interrupted right after the mark.
    let mark = layout::removal(&id(1));
    assert_eq!(store.create(&mark, format!("{end}\n").into()).await.unwrap(), CreateOutcome::Ours);
    JournalWriter::open(&store, &id(1), "other", opened).await.unwrap();
    clock.advance(100 * HOUR);
    assert_eq!(collect(&store, &DAY).await.1.runs, 0);
    assert_eq!((store.list(&layout::run(&id(1))).await.unwrap().len(), store.get(&mark).await.unwrap()), (3, None));
}

#[tokio::test]
async fn partly_removed_run_is_removed_by_the_next_collection() {
    let (_, store) = fresh().await;
    let (mut writer, _) = JournalWriter::open(&store, &id(1), "w", opened).await.unwrap();
    let end = writer.append(&[finished()]).await.unwrap() + 1;
    let batch = store.get(&layout::journal(&id(1), 1)).await.unwrap().unwrap();
    let half = fresh().await.1;
    half.create(&layout::removal(&id(1)), format!("{end}\n").into()).await.unwrap();
    half.create(&layout::journal(&id(1), 1), batch).await.unwrap();
    assert_eq!(collect(&half, &DAY).await.1.runs, 1, "the removal was begun under other options");
    assert_eq!(half.list(layout::RUNS).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn references_of_a_damaged_journal_are_kept() {
    let (clock, store) = fresh().await;
    publish(&store, &(stage(0), 0), &id(1), 1, &[]).await;
    publish(&store, &(stage(1), 0), &id(2), 2, &[]).await;
    // The manifest is older than the one used last.
    let (mut writer, _) = JournalWriter::open(&store, &id(0), "w", opened).await.unwrap();
    writer.append(&[hit(&(stage(0), 0))]).await.unwrap();
    store.create(&layout::journal(&id(0), 2), "{half".into()).await.unwrap();
    clock.advance(100 * HOUR);
    let policy = GarbagePolicy { keep_last: Some(1), runs_older_than: Some(HOUR), ..DAY };
    let (plan, done) = collect(&store, &policy).await;
    assert_eq!((plan.damaged, plan.manifests, done), (vec![id(0)], vec![], GarbageSummary::default()));
}

#[tokio::test]
async fn newer_format_stops_a_collection() {
    let cases = [
        (layout::manifest(&stage(0), 0), r#"{"format": 2}"#.to_string()),
        (layout::checkpoint(&stage(0), 1, 1), r#"{"format": 2}"#.to_string()),
        (format!("{}/000000", layout::pin(&stage(0), 0)), {
            json!({"format": 2, "stage_digest": stage(0), "generation": 0, "pinned": true, "at": 0}).to_string()
        }),
        (layout::journal(&id(1), 0), {
            let header = json!({"format": 2, "run": id(1), "seq": 0, "epoch": 1, "writer": "w",
                "sha256_before": Digest::of(b"")});
            format!("{header}\n")
        }),
    ];
    for (path, text) in cases {
        let (_, store) = fresh().await;
        store.create(&path, text.into()).await.unwrap();
        let error = store.garbage_plan(&DAY).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{path}: {error}");
        assert!(error.message.contains("nothing is removed") && error.message.contains(&path), "{error}");
    }
}

#[tokio::test]
async fn a_store_for_reading_shows_its_garbage_and_removes_none() {
    let clock = Arc::new(ManualClock::at_millis(1_795_000_000_000));
    let injected: Arc<dyn Clock> = clock.clone();
    let objects = Arc::new(Dated::new(clock.clone(), None));
    let open = async |read_only| {
        let options = StoreOptions { read_only, clock: injected.clone(), ..StoreOptions::default() };
        Store::from_object_store(objects.clone(), "memory://dated", options).await.unwrap()
    };
    let (writable, reading) = (open(false).await, open(true).await);
    writable.put_object(Bytes::from_static(b"\x01")).await.unwrap();
    clock.advance(25 * HOUR);
    let plan = reading.garbage_plan(&DAY).await.unwrap();
    assert_eq!(plan.bytes(), 1);
    let error = reading.collect_garbage(&plan).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("read-only"), "{error}");
    assert_eq!(writable.list(layout::PROBES).await.unwrap(), Vec::<String>::new(), "a look writes nothing");
    assert_eq!(writable.collect_garbage(&plan).await.unwrap().bytes, 1);
}

#[tokio::test]
async fn an_index_goes_with_its_output() {
    let (clock, store) = fresh().await;
    let keep = GarbagePolicy { keep_last: Some(1), ..DAY };
    let old = publish(&store, &(stage(0), 0), &id(1), 1, &[]).await;
    let new = publish(&store, &(stage(1), 0), &id(2), 2, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("index");
    std::fs::write(&file, b"index").unwrap();
    let outputs = [&old, &new].map(|made| made.outputs["o"].digest.clone());
    let unknown = Digest::of(b"never published");
    for output in outputs.iter().chain([&unknown]) {
        store.put_message_index(output, &file).await.unwrap();
    }
    let kept = |plan: &GarbagePlan| plan.indexes.clone();
    assert!(kept(&store.garbage_plan(&keep).await.unwrap()).is_empty(), "all are young");
    clock.advance(25 * HOUR);
    let (plan, done) = collect(&store, &keep).await;
    assert_eq!(kept(&plan), [(layout::message_index(&unknown), 5)]);
    assert_eq!((plan.bytes(), done.files, done.bytes, done.manifests), (5, 1, 5, 1));
    clock.advance(25 * HOUR);
    let (plan, done) = collect(&store, &keep).await;
    assert_eq!(kept(&plan), [(layout::message_index(&outputs[0]), 5)]);
    assert_eq!((done.files, done.bytes), (2, 6), "the object and the index");
    assert_eq!(store.message_index_size(&outputs[0]).await.unwrap(), None);
    assert_eq!(store.message_index_size(&outputs[1]).await.unwrap(), Some(5));
    let (plan, _) = collect(&store, &keep).await;
    assert!(plan.is_empty());
}

#[tokio::test]
async fn tags_and_notes_are_removed_with_what_they_annotate() {
    let (clock, store) = fresh().await;
    for number in [1, 2] {
        let (mut writer, _) = JournalWriter::open(&store, &id(number), "w", opened).await.unwrap();
        if number == 1 {
            writer.append(&[finished()]).await.unwrap();
        }
        store.set_tag(&id(number), "best", true, None).await.unwrap();
    }
    let old = publish(&store, &(stage(0), 0), &id(1), 1, &[]).await;
    clock.advance(100 * HOUR);
    let new = publish(&store, &(stage(1), 0), &id(2), 2, &[]).await;
    let digest = |made: &Manifest| made.outputs.values().next().unwrap().digest.clone();
    for made in [&old, &new] {
        store.add_note(&digest(made), None, "note", None).await.unwrap();
    }
    assert!(collect(&store, &DAY).await.0.is_empty(), "everything that is annotated stays");
    let policy = GarbagePolicy { keep_last: Some(1), runs_older_than: Some(90 * HOUR), ..DAY };
    let (plan, done) = collect(&store, &policy).await;
    assert_eq!((done.runs, done.manifests, done.annotations), (1, 1, 2), "a tag and a note keep nothing");
    assert_eq!(plan.annotations.len(), 2);
    assert_eq!(store.tags().await.unwrap().into_keys().collect::<Vec<_>>(), [id(2)]);
    assert_eq!(store.notes().await.unwrap().into_keys().collect::<Vec<_>>(), [digest(&new)]);
}
