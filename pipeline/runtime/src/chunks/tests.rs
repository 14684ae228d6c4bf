use super::*;
use crate::tests::attempt_spec;
use trainyard_core::Error;
use trainyard_core::clock::ManualClock;
use trainyard_store::StoreOptions;
use trainyard_testkit::faults::{FaultyStore, StoreFault};

/// Creates a writer over a store that fails on command.
async fn writer() -> (Arc<FaultyStore>, Store, ChunkWriter) {
    let faulty = FaultyStore::new(Arc::new(object_store::memory::InMemory::new()));
    let store = Store::from_object_store(faulty.clone(), "memory://faulty", StoreOptions::default()).await.unwrap();
    let writer = ChunkWriter::new(&store, &attempt_spec(), Arc::new(ManualClock::at_millis(NOW)), |_| {});
    (faulty, store, writer)
}

const NOW: i64 = 1_795_234_530_042;

impl ChunkWriter {
    fn raw(&self, line: &str) {
        self.log(LogLevel::Info, line);
    }
}

/// Returns the stored log.
async fn stored(store: &Store) -> Vec<LogRecord> {
    let (text, _) =
        store.read_chunks(&attempt_spec().run, &attempt_spec().stage, 1, AttemptStream::Log, 0).await.unwrap();
    String::from_utf8(text).unwrap().lines().map(LogRecord::parse).collect()
}

async fn texts(store: &Store) -> Vec<String> {
    stored(store).await.into_iter().map(|record| record.text).collect()
}

#[tokio::test]
async fn last_progress_is_stored_beside_the_log() {
    let (_, store, writer) = writer().await;
    let progress =
        |done| AttemptMessage::Progress { done, total: 9, unit: "steps".into(), metric: Some(("loss".into(), 0.5)) };
    (1..=3).for_each(|done| writer.message(&progress(done)));
    writer.put().await.unwrap();
    let stored = store.progress(&attempt_spec().run, &attempt_spec().stage, 1).await.unwrap().unwrap();
    assert_eq!((stored.at, stored.done, stored.total, stored.unit.as_str()), (NOW, 3, 9, "steps"));
    writer.message(&progress(4));
    writer.put().await.unwrap();
    let again = store.progress(&attempt_spec().run, &attempt_spec().stage, 1).await.unwrap().unwrap();
    assert_eq!(again.done, 3, "the clock stands, so the next write is not due");
}

#[tokio::test]
async fn records_have_time_and_level() {
    let (_, store, writer) = writer().await;
    writer.raw("two\nlines");
    writer.message(&AttemptMessage::Log { level: LogLevel::Warn, text: "careful".into() });
    let error = Error::lost("gone").caused_by(&std::io::Error::other("reset by peer"));
    writer.message(&AttemptMessage::Error { error });
    writer.put().await.unwrap();
    let record = |level, text: &str| LogRecord { at: Some(NOW), level, text: text.to_string() };
    let expected = [
        record(LogLevel::Info, "two\nlines"),
        record(LogLevel::Warn, "careful"),
        record(LogLevel::Error, "gone\n  caused by: reset by peer"),
    ];
    assert_eq!(stored(&store).await, expected);
}

#[tokio::test]
async fn failed_chunk_is_retried_before_later_ones() {
    let (faulty, store, writer) = writer().await;
    writer.raw("one");
    writer.put().await.unwrap();
    writer.raw("two");
    faulty.inject(StoreFault::Denied, "/log/", 1);
    writer.put().await.unwrap_err();
    writer.raw("three");
    assert_eq!(texts(&store).await, ["one"]);
    writer.put().await.unwrap();
    assert_eq!(texts(&store).await, ["one", "two", "three"]);
}

#[tokio::test]
async fn chunks_of_an_earlier_engine_come_first() {
    let (_, store, writer) = writer().await;
    let spec = attempt_spec();
    let before = store
        .put_chunk(&spec.run, &spec.stage, 1, AttemptStream::Log, 0, Bytes::from_static(b"before\n"))
        .await
        .unwrap();
    assert_eq!(before, CreateOutcome::Ours);
    writer.raw("after");
    writer.put().await.unwrap();
    assert_eq!(texts(&store).await, ["before", "after"]);
    assert_eq!(stored(&store).await[0].at, None, "chunks of earlier versions have no times");
}

#[tokio::test]
async fn buffer_is_bounded_during_an_outage() {
    let (faulty, store, writer) = writer().await;
    let line = "x".repeat(1 << 20);
    faulty.inject(StoreFault::Denied, "/log/", 1);
    writer.raw(&line);
    writer.put().await.unwrap_err();
    for _ in 0..20 {
        writer.raw(&line);
    }
    let record = push(&mut String::new(), NOW, LogLevel::Info, &line);
    let waiting = writer.buffers().log.waiting();
    assert!((LIMIT..=LIMIT + record).contains(&waiting), "{waiting}");
    writer.put().await.unwrap();
    let texts = texts(&store).await;
    let lines = texts.iter().filter(|l| **l == line).count();
    let dropped = format!("[{} bytes of log were dropped", (21 - lines) * record);
    assert!(texts.last().unwrap().starts_with(&dropped), "the log reports the dropped bytes");
}

#[tokio::test]
async fn curves_are_a_separate_stream() {
    let (_, store, writer) = writer().await;
    let point = |step| AttemptMessage::Metric { name: "loss".into(), step, value: 0.5 };
    writer.message(&point(1));
    writer.message(&AttemptMessage::Progress { done: 1, total: 2, unit: "steps".into(), metric: None });
    writer.message(&AttemptMessage::Checkpoint { step: 1 });
    writer.message(&AttemptMessage::Result {});
    writer.message(&point(2));
    writer.flush().await;
    let (text, _) =
        store.read_chunks(&attempt_spec().run, &attempt_spec().stage, 1, AttemptStream::Metrics, 0).await.unwrap();
    let lines = String::from_utf8(text).unwrap();
    let points: Vec<AttemptMessage> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(points, [point(1), point(2)]);
    assert_eq!(texts(&store).await, [""; 0]);
}

#[tokio::test]
async fn concurrent_flushes_skip_no_number() {
    let (_, store, writer) = writer().await;
    for line in ["one", "two", "three"] {
        writer.raw(line);
        tokio::join!(writer.flush(), writer.flush(), writer.flush());
    }
    assert_eq!(texts(&store).await, ["one", "two", "three"]);
}

#[tokio::test]
async fn close_stores_the_remaining_messages() {
    let (_, store, _) = writer().await;
    let (writer, task) = ChunkWriter::open(&store, &attempt_spec(), Arc::new(ManualClock::at_millis(NOW)), |_| {});
    writer.raw("last");
    writer.close();
    task.await.unwrap();
    assert_eq!(texts(&store).await, ["last"]);
}

#[tokio::test]
async fn failure_to_store_the_end_is_reported() {
    let (faulty, store, _) = writer().await;
    let reports = Arc::new(Mutex::new(Vec::new()));
    let sink = reports.clone();
    let (writer, task) =
        ChunkWriter::open(&store, &attempt_spec(), Arc::new(ManualClock::at_millis(NOW)), move |text| {
            sink.lock().unwrap().push(text.to_string());
        });
    faulty.inject(StoreFault::ReadOnly, "/log/", u32::MAX);
    writer.raw("last");
    writer.close();
    task.await.unwrap();
    let reports = reports.lock().unwrap();
    assert!(
        matches!(&reports[..], [only] if only.starts_with("the end of the log of a was not stored")),
        "{reports:?}"
    );
}

#[tokio::test]
async fn appended_line_follows_the_stored_log() {
    let (_, store, writer) = writer().await;
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at_millis(NOW));
    for line in ["one", "two"] {
        writer.raw(line);
        writer.put().await.unwrap();
    }
    ChunkWriter::append_after_end(&store, &attempt_spec(), clock.clone(), "words of the executor").await.unwrap();
    ChunkWriter::append_after_end(&store, &attempt_spec(), clock, "more").await.unwrap();
    assert_eq!(texts(&store).await, ["one", "two", "words of the executor", "more"]);
}

#[tokio::test]
async fn long_log_is_merged_into_pages() {
    let (_, store, _) = writer().await;
    let (writer, task) = ChunkWriter::open(&store, &attempt_spec(), Arc::new(ManualClock::at_millis(NOW)), |_| {});
    let lines: Vec<String> = (0..140).map(|n| format!("line {n}")).collect();
    for line in &lines {
        writer.raw(line);
        writer.flush().await;
    }
    let count = |name: &'static str| {
        let store = store.clone();
        async move { store.list("runs").await.unwrap().iter().filter(|path| path.contains(name)).count() }
    };
    assert_eq!((count("/log/").await, count("/log-pages/").await), (12, 2), "full pages are put while it runs");
    writer.close();
    task.await.unwrap();
    assert_eq!((count("/log/").await, count("/log-pages/").await), (0, 3));
    assert_eq!(texts(&store).await, lines);
}

#[tokio::test]
async fn second_process_continues_after_stored_pages() {
    let (_, store, first) = writer().await;
    let (second, third) = {
        let again = || ChunkWriter::new(&store, &attempt_spec(), Arc::new(ManualClock::at_millis(NOW)), |_| {});
        (again(), again())
    };
    for n in 0..70 {
        first.raw(&n.to_string());
        first.put().await.unwrap();
    }
    second.raw("again");
    second.put().await.unwrap();
    third.raw("and again");
    third.put().await.unwrap();
    let texts = texts(&store).await;
    assert_eq!((texts.len(), &texts[69..]), (72, &["69", "again", "and again"].map(String::from)[..]));
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at_millis(NOW));
    ChunkWriter::append_after_end(&store, &attempt_spec(), clock, "words of the executor").await.unwrap();
    assert_eq!(stored(&store).await.last().unwrap().text, "words of the executor");
}
