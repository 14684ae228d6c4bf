//! Runs the conformance suite on every kind of store, and tests failures of stores.

#[path = "gcs/server.rs"]
mod gcs;
mod published;

use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use serde_json::json;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Clock, Digest, ErrorKind, Manifest, RunId, StageKey, SystemClock};
use trainyard_store::manifests::NewestManifest;
use trainyard_store::{
    AttemptStream, CreateOutcome, GarbagePolicy, MissingFolder, Store, StoreOptions, conformance, layout,
};
use trainyard_testkit::faults::{FaultyStore, StoreFault};

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_conforms() {
    conformance::suite("memory://conformance", scratch().path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_folder_conforms() {
    let folder = scratch();
    conformance::suite(folder.path().join("a store").to_str().unwrap(), scratch().path()).await;
}

/// Runs the suite below the URL in an environment variable. Without the variable, the test prints that it is skipped.
async fn conforms_if_named(variable: &str) {
    let Ok(url) = std::env::var(variable) else {
        // Bypasses the harness, which captures the output of a test that passes.
        let _ = writeln!(std::io::stderr(), "skipped: {}: {variable} names no bucket", file!());
        return;
    };
    let prefix = format!(
        "{}/conformance-{}-{}",
        url.trim_end_matches('/'),
        SystemClock::new().unix_millis(),
        std::process::id()
    );
    conformance::suite(&prefix, scratch().path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_bucket_conforms() {
    conforms_if_named("TRAINYARD_TEST_S3").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_container_of_azure_conforms() {
    conforms_if_named("TRAINYARD_TEST_AZ").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_bucket_of_google_conforms() {
    conforms_if_named("TRAINYARD_TEST_GS").await;
}

/// Starts this program again with other variables, since tests may not change their own, to run one of its tests.
fn again(test: &str, variables: &[(&str, &str)]) -> std::process::Output {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).envs(variables.iter().copied());
    command.output().unwrap()
}

#[test]
fn a_bucket_on_a_small_server_of_googles_interface_conforms() {
    let server = gcs::start();
    let gs = [
        ("TRAINYARD_TEST_GS", "gs://bucket/tests"),
        ("GOOGLE_BASE_URL", &server),
        ("GOOGLE_ALLOW_HTTP", "true"),
        ("GOOGLE_BEARER_TOKEN", "any"),
    ];
    let ran = again("a_bucket_of_google_conforms", &gs);
    let output = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && output.contains("1 passed") && !output.contains("skipped"), "{output}");
}

#[tokio::test]
async fn a_flushed_folder_behaves_the_same() {
    let folder = scratch();
    let options = StoreOptions { durability_fsync: true, ..StoreOptions::default() };
    let store = Store::open(folder.path().to_str().unwrap(), options).await.unwrap();
    assert_eq!(store.create("a/b", Bytes::from_static(b"1")).await, Ok(CreateOutcome::Ours));
    assert_eq!(store.create("a/b", Bytes::from_static(b"1")).await, Ok(CreateOutcome::Ours));
    assert_eq!(
        store.create("a/b", Bytes::from_static(b"2")).await,
        Ok(CreateOutcome::Theirs(Bytes::from_static(b"1")))
    );
}

#[tokio::test]
async fn urls_are_read_and_refused() {
    let folder = scratch();
    let store = Store::open(folder.path().to_str().unwrap(), StoreOptions::default()).await.unwrap();
    let again = Store::open(store.url(), StoreOptions::default()).await.unwrap();
    assert_eq!(store.local_root(), again.local_root());
    let refused = async |url: &str, read_only| {
        Store::open(url, StoreOptions { read_only, ..StoreOptions::default() }).await.unwrap_err()
    };
    assert!(refused("gopher://x", false).await.message.contains("gopher"));
    assert_eq!(refused("s3://", false).await.kind, ErrorKind::Invalid);
    let none = folder.path().join("none");
    let error = refused(none.to_str().unwrap(), true).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("there is no store at") && error.help.is_some(), "{error}");
    assert!(!none.exists(), "looking makes no folder");
    let private = Store::open("memory://", StoreOptions::default()).await.unwrap();
    private.create("x", Bytes::new()).await.unwrap();
    assert_eq!(Store::open("memory://", StoreOptions::default()).await.unwrap().get("x").await, Ok(None));
}

#[tokio::test]
async fn missing_folder_is_created_rejected_or_empty() {
    let folder = scratch();
    let none = folder.path().join("none");
    let open = async |read_only, missing| {
        Store::open(none.to_str().unwrap(), StoreOptions { read_only, missing, ..StoreOptions::default() }).await
    };
    for (read_only, missing) in [
        (true, MissingFolder::Make),
        (true, MissingFolder::Refuse),
        (false, MissingFolder::Refuse),
        (false, MissingFolder::Empty),
    ] {
        let error = open(read_only, missing).await.unwrap_err();
        assert!(error.message.contains("there is no store at"), "{error}");
    }
    let empty = open(true, MissingFolder::Empty).await.unwrap();
    assert_eq!((empty.list_runs().await, empty.get("x").await), (Ok(vec![]), Ok(None)));
    assert_eq!(empty.create("x", Bytes::new()).await.unwrap_err().kind, ErrorKind::Invalid);
    assert!(!none.exists(), "looking makes no folder");
    open(false, MissingFolder::Make).await.unwrap();
    assert!(none.is_dir());
    std::fs::write(folder.path().join("file"), "").unwrap();
    let options = StoreOptions { read_only: true, ..StoreOptions::default() };
    let error = Store::open(folder.path().join("file").to_str().unwrap(), options).await.unwrap_err();
    assert!(error.message.contains("is not a folder"), "{error}");
}

#[tokio::test]
async fn a_store_that_ignores_the_condition_is_refused() {
    let faulty = FaultyStore::new(Arc::new(InMemory::new()));
    faulty.inject(StoreFault::IgnoresCondition, "probes", 2);
    let error = Store::from_object_store(faulty, "memory://bad", StoreOptions::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("two writers"), "{error}");
}

async fn faulty() -> (Arc<FaultyStore>, Store) {
    let faulty = FaultyStore::new(Arc::new(InMemory::new()));
    let store = Store::from_object_store(faulty.clone(), "memory://faulty", StoreOptions::default()).await.unwrap();
    (faulty, store)
}

#[tokio::test]
async fn ambiguous_response_is_resolved_by_reading() {
    for fault in [StoreFault::LostAnswer, StoreFault::ExistsAfterRetry, StoreFault::LostRequest] {
        let (faulty, store) = faulty().await;
        faulty.inject(fault, "name", 2);
        assert_eq!(store.create("a/name", Bytes::from_static(b"mine")).await, Ok(CreateOutcome::Ours), "{fault:?}");
        faulty.inject(fault, "name", 1);
        assert_eq!(
            store.create("a/name", Bytes::from_static(b"other")).await,
            Ok(CreateOutcome::Theirs(Bytes::from_static(b"mine"))),
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn lost_requests_fail_after_a_bounded_number_of_attempts() {
    let (faulty, store) = faulty().await;
    faulty.inject(StoreFault::LostRequest, "name", 1000);
    let error = store.create("a/name", Bytes::from_static(b"mine")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retryable);
    assert!(error.message.contains("memory://faulty/a/name"), "{error}");
}

#[tokio::test]
async fn store_that_recovers_in_time_is_waited_for() {
    let faulty = FaultyStore::new(Arc::new(InMemory::new()));
    let options = StoreOptions { outage: Duration::from_secs(600), ..StoreOptions::default() };
    let store = Store::from_object_store(faulty.clone(), "memory://faulty", options).await.unwrap();
    let folder = scratch();
    let file = folder.path().join("large");
    std::fs::write(&file, vec![7; 9 << 20]).unwrap();
    // More often than the minimum number of attempts.
    faulty.inject(StoreFault::LostRequest, "name", 6);
    assert_eq!(store.create("a/name", Bytes::from_static(b"mine")).await, Ok(CreateOutcome::Ours));
    faulty.inject(StoreFault::LostRequest, "objects/", 6);
    let (small, _) = store.put_object(Bytes::from_static(b"small")).await.unwrap();
    faulty.inject(StoreFault::LostRequest, "objects/", 3);
    let (large, size) = store.put_object_file(&file).await.unwrap();
    assert!(store.has_object(&large, size).await.unwrap());
    faulty.inject(StoreFault::BrokenRead, "objects/", 6);
    assert_eq!(store.read_object(&small).await.unwrap().as_ref(), b"small");
    faulty.inject(StoreFault::BrokenRead, "a/name", 3);
    assert_eq!(store.get("a/name").await, Ok(Some(Bytes::from_static(b"mine"))));
    let hurried = store.with_outage(Duration::ZERO);
    faulty.inject(StoreFault::LostRequest, "other", 4);
    assert_eq!(hurried.create("a/other", Bytes::new()).await.unwrap_err().kind, ErrorKind::Retryable);
}

#[tokio::test(start_paused = true)]
async fn put_without_a_response_is_retried_within_seconds() {
    let (faulty, store) = faulty().await;
    faulty.inject(StoreFault::NoAnswer, "journal/", 1);
    let put = store.create("runs/x/journal/0", "one".into());
    let put = tokio::time::timeout(Duration::from_secs(15), put).await;
    assert_eq!(put.expect("a writer that is silent for 30 s may be replaced"), Ok(CreateOutcome::Ours));
    faulty.inject(StoreFault::NoAnswer, "objects/", 1);
    let (digest, _) = store.put_object("two".into()).await.unwrap();
    assert_eq!(store.read_object(&digest).await.unwrap(), "two");
}

#[tokio::test]
async fn missing_store_folder_is_not_recreated() {
    let folder = scratch();
    let file = folder.path().join("large");
    std::fs::write(&file, vec![7; 9 << 20]).unwrap();
    let (root, aside) = (folder.path().join("store"), folder.path().join("aside"));
    for durability_fsync in [false, true] {
        let options = StoreOptions { durability_fsync, ..StoreOptions::default() };
        let store = Store::open(root.to_str().unwrap(), options).await.unwrap();
        store.create("a/b", Bytes::from_static(b"1")).await.unwrap();
        std::fs::rename(&root, &aside).unwrap();
        // Removed, or replaced by another folder, as when a disk is unmounted.
        for replaced in [false, true] {
            if replaced {
                std::fs::create_dir(&root).unwrap();
            }
            let errors = [
                store.create("a/c", Bytes::from_static(b"2")).await.unwrap_err(),
                store.put_object(Bytes::from_static(b"small")).await.unwrap_err(),
                store.put_object_file(&file).await.unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind, ErrorKind::Lost, "{error}");
                assert!(error.message.contains("is gone") && error.help.is_some(), "{error}");
            }
            assert_eq!(root.exists(), replaced);
        }
        // Fails unless it is empty.
        std::fs::remove_dir(&root).unwrap();
        std::fs::rename(&aside, &root).unwrap();
        assert_eq!(store.create("a/c", Bytes::from_static(b"2")).await, Ok(CreateOutcome::Ours));
        std::fs::remove_dir_all(&root).unwrap();
    }
}

#[tokio::test]
async fn full_disks_and_lost_rights_keep_what_was_published() {
    let folder = scratch();
    let file = folder.path().join("large");
    std::fs::write(&file, vec![7; 9 << 20]).unwrap();
    for (fault, kind) in [
        (StoreFault::DiskFull, ErrorKind::Retryable),
        (StoreFault::ReadOnly, ErrorKind::Invalid),
        (StoreFault::Denied, ErrorKind::Invalid),
    ] {
        let (faulty, store) = faulty().await;
        let (kept, size) = store.put_object(Bytes::from_static(b"published")).await.unwrap();
        faulty.inject(fault, "", u32::MAX);
        let errors = [
            store.create("artifacts/x", Bytes::from_static(b"m")).await.unwrap_err(),
            store.put_object(Bytes::from_static(b"new")).await.unwrap_err(),
            store.put_object_file(&file).await.unwrap_err(),
        ];
        for (error, place) in errors.iter().zip(["artifacts/x", "objects/", "objects/"]) {
            assert_eq!(error.kind, kind, "{error}");
            assert!(error.message.contains(place) && error.help.is_some(), "{error}");
        }
        assert_eq!(store.read_object(&kept).await.unwrap().len() as u64, size, "published bytes are intact");
        faulty.heal();
        store.put_object_file(&file).await.unwrap();
        assert_eq!(store.create("artifacts/x", Bytes::from_static(b"m")).await, Ok(CreateOutcome::Ours));
    }
}

#[tokio::test]
async fn a_damaged_object_is_found_and_healed() {
    let folder = scratch();
    let store = Store::open(folder.path().to_str().unwrap(), StoreOptions::default()).await.unwrap();
    let (digest, _) = store.put_object(Bytes::from_static(b"sound")).await.unwrap();
    let path = store.object_path(&digest).unwrap();
    assert!(std::fs::metadata(&path).unwrap().permissions().readonly(), "stored payloads are protected");
    let mut open = std::fs::metadata(&path).unwrap().permissions();
    open.set_mode(0o644);
    std::fs::set_permissions(&path, open).unwrap();
    std::fs::write(&path, b"bad!!").unwrap();
    assert_eq!(store.read_object(&digest).await.unwrap_err().kind, ErrorKind::Data);
    assert!(!path.exists(), "the next lookup finds it missing");
    assert_eq!(store.put_object(Bytes::from_static(b"sound")).await.unwrap().0, digest);
    assert_eq!(store.read_object(&digest).await.unwrap().as_ref(), b"sound");
}

#[tokio::test]
async fn staged_files_of_dead_processes_are_hidden_and_collected() {
    let folder = scratch();
    let store = Store::open(folder.path().to_str().unwrap(), StoreOptions::default()).await.unwrap();
    let (digest, _) = store.put_object(Bytes::from_static(b"x")).await.unwrap();
    let staged = PathBuf::from(format!("{}#123", store.object_path(&digest).unwrap().display()));
    std::fs::write(&staged, b"half").unwrap();
    assert_eq!(store.list("objects").await.unwrap().len(), 1);
    assert!(store.garbage_plan(&GarbagePolicy::from(Duration::from_secs(3600))).await.unwrap().staged.is_empty());
    let plan = store.garbage_plan(&GarbagePolicy::from(Duration::ZERO)).await.unwrap();
    assert_eq!(plan.staged, [(staged.clone(), 4)]);
    assert_eq!(store.collect_garbage(&plan).await.unwrap().files, 2);
    assert!(!staged.exists() && store.object_path(&Digest::of(b"x")).is_some_and(|p| !p.exists()));
}
