//! Builds manifests and chunks for tests: published, damaged, of another program, or many.

use super::*;

#[tokio::test]
async fn garbage_is_left_alone_when_a_manifest_cannot_be_read() {
    let (_, store) = faulty().await;
    store.put_object(Bytes::from_static(b"orphan")).await.unwrap();
    let stage = Digest::of(b"s");
    store.create(&layout::manifest(&stage, 0), Bytes::from_static(b"{half")).await.unwrap();
    let error = store.garbage_plan(&GarbagePolicy::from(Duration::ZERO)).await.unwrap_err();
    assert!(error.message.contains("nothing is removed"), "{error}");
}

#[tokio::test]
async fn a_manifest_whose_files_leave_their_folder_is_damaged_and_is_not_published() {
    let (_, store) = faulty().await;
    let (stage, folder) = (Digest::of(b"s"), scratch());
    let (object, size) = store.put_object(Bytes::from_static(b"x")).await.unwrap();
    for path in ["a/../../b", "/etc/b", "..", ""] {
        let text = json!({
            "format": 1, "stage_digest": stage, "generation": 0, "kind": "run", "kind_version": 1, "config": {},
            "outputs": {"o": {
                "kind": "files", "digest": stage, "files": [{"path": path, "digest": object, "size": size}],
            }},
            "provenance": {"workflow": "w", "run": "20260102-030405-00000a", "stage": "s", "attempt": 1},
        });
        let manifest: Manifest = serde_json::from_value(text.clone()).unwrap();
        let error = store.publish(&manifest).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Data);
        assert!(error.message.contains(&format!("{path:?}")), "{error}");
        assert_eq!(store.newest(&stage).await, Ok(NewestManifest::Missing));
        let error = store.fetch_output(&manifest.outputs["o"], &folder.path().join("o")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Data);
        assert!(!folder.path().join("b").exists());
        // As an earlier version published it.
        let (_, store) = faulty().await;
        store.create(&layout::manifest(&stage, 0), text.to_string().into()).await.unwrap();
        let newest = store.newest(&stage).await.unwrap();
        assert!(
            matches!(&newest, NewestManifest::Damaged { generation: 0, error } if error.help.is_some()),
            "{newest:?}"
        );
    }
}

#[tokio::test]
async fn a_manifest_of_a_newer_program_is_not_damage() {
    let (_, store) = faulty().await;
    let stage = Digest::of(b"s");
    store.create(&layout::manifest(&stage, 0), Bytes::from_static(br#"{"format": 2}"#)).await.unwrap();
    let error = store.newest(&stage).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("manifest format 2"), "{error}");
}

#[tokio::test]
async fn only_first_and_last_generations_are_read() {
    let folder = scratch();
    let store = Store::open(folder.path().to_str().unwrap(), StoreOptions::default()).await.unwrap();
    let stage = Digest::of(b"nightly");
    for generation in 0..30 {
        let newest = store.newest(&stage).await.unwrap();
        let before = match newest {
            NewestManifest::Missing => None,
            NewestManifest::Damaged { generation, .. } => Some(generation),
            NewestManifest::Sound(_) => panic!("half a manifest is none"),
        };
        assert_eq!(before, u32::checked_sub(generation, 1));
        store.create(&layout::manifest(&stage, generation), Bytes::from_static(b"{half")).await.unwrap();
    }
    // The ones in between are not needed.
    for generation in 2..29 {
        std::fs::remove_file(folder.path().join(layout::manifest(&stage, generation))).unwrap();
    }
    assert!(matches!(store.newest(&stage).await, Ok(NewestManifest::Damaged { generation: 29, .. })));
}

#[tokio::test]
async fn chunks_come_in_order_up_to_the_first_that_is_missing() {
    let (_, store) = faulty().await;
    let (run, stage) = (RunId("20260102-030405-00000a".into()), StageKey("s".into()));
    for number in (0..50).chain([60]).rev() {
        let bytes = Bytes::from(format!("{number}\n"));
        store.put_chunk(&run, &stage, 1, AttemptStream::Log, number, bytes).await.unwrap();
    }
    let mut chunks = store.chunks(&run, &stage, 1, AttemptStream::Log, 3);
    let mut number = 3;
    while let Some(bytes) = chunks.next().await.unwrap() {
        assert_eq!(bytes, format!("{number}\n"));
        number += 1;
    }
    assert_eq!(number, 50);
    let (text, next) = store.read_chunks(&run, &stage, 1, AttemptStream::Log, 48).await.unwrap();
    assert_eq!((text.as_slice(), next), (&b"48\n49\n"[..], 50));
}

/// Prints times: `cargo test --release -p trainyard-store -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints times, checks nothing"]
async fn times_of_ten_thousand_puts() {
    let clock = SystemClock::new();
    let (folder, other) = (scratch(), scratch());
    let files = LocalFileSystem::new_with_prefix(other.path()).unwrap();
    let stores = [
        ("folder", Store::open(folder.path().to_str().unwrap(), StoreOptions::default()).await.unwrap()),
        (
            "folder, all through object_store",
            Store::from_object_store(Arc::new(files), "other", StoreOptions::default()).await.unwrap(),
        ),
        ("memory", Store::open("memory://", StoreOptions::default()).await.unwrap()),
    ];
    let body = Bytes::from(vec![b'x'; 1200]);
    let stages: Vec<_> = (0..10_000u32).map(|i| Digest::of(&i.to_le_bytes())).collect();
    for (name, store) in stores {
        let start = clock.monotonic();
        for stage in &stages {
            store.create(&layout::manifest(stage, 0), body.clone()).await.unwrap();
        }
        let puts = clock.monotonic() - start;
        let start = clock.monotonic();
        for stage in &stages {
            for generation in 0..2 {
                store.get(&layout::manifest(stage, generation)).await.unwrap();
            }
        }
        println!("{name}: 10,000 puts {puts:?}, 20,000 gets {:?}", clock.monotonic() - start);
    }
}
