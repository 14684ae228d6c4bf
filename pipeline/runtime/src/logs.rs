//! Logs and learning curves of an attempt, stored in chunks while it runs.
//!
//! A chunk is put every few seconds or when it is large, so `trainyard logs` can show a running stage and a crash
//! loses little. A chunk that the store does not take is put again under its number, and what follows collects behind
//! it up to a bound. If the store stays away, the end of the log is lost, but not the attempt.

use crate::executors::Reports;
use crate::news::News;
use crate::patience::{SHORT_WAITS, patiently};
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::Instrument as _;
use trainyard_core::Result;
use trainyard_core::attempt::{AttemptMessage, LogLevel, LogRecord};
use trainyard_store::{Chunk, Created, Store, layout};

/// Time between chunks, unless one is full earlier.
const EVERY: Duration = Duration::from_secs(2);
/// Bytes after which a chunk is put at once.
const FULL: usize = 256 * 1024;
/// Bytes that may wait for a slow store; anything beyond is dropped and counted.
const LIMIT: usize = 8 << 20;

/// Receives the messages of an attempt.
pub(crate) struct Sink {
    news: Arc<News>,
    /// Waits for nobody: what cannot be stored now collects here, and must not hold up the attempt's end.
    store: Store,
    buffers: Mutex<Buffers>,
    full: Notify,
    closed: Notify,
}

/// One stream of an attempt on its way to the store.
#[derive(Default)]
struct Stream {
    /// Not yet cut into a chunk.
    text: String,
    /// Cut, and not known to be stored. It is put again unchanged, since a failed put may have landed.
    chunk: Option<Bytes>,
    /// Number of that chunk, or of the next one.
    number: u32,
}

#[derive(Default)]
struct Buffers {
    log: Stream,
    metrics: Stream,
    dropped: usize,
}

impl Stream {
    fn waiting(&self) -> usize {
        self.text.len() + self.chunk.as_ref().map_or(0, Bytes::len)
    }
}

impl Buffers {
    fn stream(&mut self, which: Chunk) -> &mut Stream {
        match which {
            Chunk::Log => &mut self.log,
            Chunk::Metrics => &mut self.metrics,
        }
    }

    /// The chunk to put next and its number: the one that is not stored yet, else everything that waits. `now` dates a
    /// record about dropped bytes.
    fn cut(&mut self, which: Chunk, now: i64) -> Option<(u32, Bytes)> {
        if which == Chunk::Log && self.dropped > 0 && self.log.chunk.is_none() {
            let text = format!("[{} bytes of log were dropped: the store was too slow]", self.dropped);
            push(&mut self.log.text, now, LogLevel::Warn, &text);
            self.dropped = 0;
        }
        let stream = self.stream(which);
        if stream.chunk.is_none() && !stream.text.is_empty() {
            stream.chunk = Some(Bytes::from(std::mem::take(&mut stream.text)));
        }
        stream.chunk.clone().map(|chunk| (stream.number, chunk))
    }
}

impl Sink {
    /// A sink, and the task that empties it until [`Sink::close`].
    pub fn open(news: &Arc<News>) -> (Arc<Self>, JoinHandle<()>) {
        let sink = Arc::new(Self::new(news));
        let task = tokio::spawn(sink.clone().empty_until_closed().in_current_span());
        (sink, task)
    }
    fn new(news: &Arc<News>) -> Self {
        Self {
            news: news.clone(),
            store: news.context.store.with_outage(Duration::ZERO),
            buffers: Mutex::default(),
            full: Notify::new(),
            closed: Notify::new(),
        }
    }
    /// Puts text behind what an attempt has stored itself. Nothing of the attempt may run any more.
    pub async fn append_behind(news: &Arc<News>, text: &str) -> Result<()> {
        let sink = Self::new(news);
        let spec = &news.spec;
        let folder = layout::attempt(&spec.run, &spec.stage, spec.attempt);
        // A listing that misses some only costs requests: a chunk that is there is never written over.
        let stored = sink.store.list(&format!("{folder}/log")).await?;
        let number = |path: &String| path.rsplit('/').next()?.parse::<u32>().ok();
        sink.buffers().log.number = stored.iter().filter_map(number).max().map_or(0, |last| last + 1);
        sink.raw(text);
        patiently(&sink.store, &SHORT_WAITS, || sink.put()).await
    }
    /// Puts what is left and ends the task.
    pub fn close(&self) {
        self.closed.notify_one();
    }

    async fn empty_until_closed(self: Arc<Self>) {
        let mut failing = false;
        loop {
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                // While the store fails, it is tried on schedule, not at every line.
                () = self.full.notified(), if !failing => {}
                () = self.closed.notified() => break,
            }
            match self.put().await {
                Ok(()) => failing = false,
                Err(error) => {
                    if !failing {
                        let stage = &self.news.spec.stage;
                        self.news.note(&format!("the log of {stage} cannot be stored for now: {error}"));
                    }
                    failing = true;
                }
            }
        }
        if let Err(error) = patiently(&self.store, &SHORT_WAITS, || self.put()).await {
            let stage = &self.news.spec.stage;
            self.news.note(&format!("the end of the log of {stage} was not stored: {error}"));
        }
    }

    /// Puts everything that waits. Errors: those of the store; what it did not take waits for the next time.
    async fn put(&self) -> Result<()> {
        let log = self.put_stream(Chunk::Log).await;
        self.put_stream(Chunk::Metrics).await.and(log)
    }

    async fn put_stream(&self, which: Chunk) -> Result<()> {
        let left_over = self.buffers().stream(which).chunk.is_some();
        self.put_chunk(which).await?;
        if left_over {
            // What collected behind it.
            self.put_chunk(which).await?;
        }
        Ok(())
    }

    async fn put_chunk(&self, which: Chunk) -> Result<()> {
        let spec = &self.news.spec;
        loop {
            let next = self.buffers().cut(which, self.now());
            let Some((number, chunk)) = next else { return Ok(()) };
            let created = self.store.put_chunk(&spec.run, &spec.stage, spec.attempt, which, number, chunk).await?;
            let mut buffers = self.buffers();
            let stream = buffers.stream(which);
            // Readers stop at the first missing number, so it may only grow past a chunk that is stored.
            stream.number += 1;
            if created == Created::Ours {
                stream.chunk = None;
                return Ok(());
            }
            // An earlier engine stored a chunk under this number; ours goes behind it.
        }
    }

    fn now(&self) -> i64 {
        self.news.context.clock.unix_millis()
    }

    fn log(&self, level: LogLevel, text: &str) {
        let now = self.now();
        self.append(|b| push(&mut b.log.text, now, level, text));
    }

    fn append(&self, write: impl FnOnce(&mut Buffers) -> usize) {
        let mut buffers = self.buffers();
        if buffers.log.waiting() + buffers.metrics.waiting() > LIMIT {
            let mut aside = Buffers::default();
            buffers.dropped += write(&mut aside);
            return;
        }
        write(&mut buffers);
        if buffers.log.text.len() + buffers.metrics.text.len() > FULL {
            self.full.notify_one();
        }
    }

    fn buffers(&self) -> MutexGuard<'_, Buffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reports for Sink {
    fn message(&self, message: AttemptMessage) {
        match &message {
            AttemptMessage::Log { level, text } => self.log(*level, text),
            AttemptMessage::Error { error } => {
                let causes = error.causes().map(|cause| format!("\n  caused by: {cause}"));
                self.log(LogLevel::Error, &format!("{error}{}", causes.collect::<String>()));
            }
            AttemptMessage::Metric { .. } => {
                if let Ok(line) = serde_json::to_string(&message) {
                    self.append(|b| {
                        b.metrics.text.push_str(&line);
                        b.metrics.text.push('\n');
                        line.len()
                    });
                }
            }
            AttemptMessage::Checkpoint { .. } | AttemptMessage::Progress { .. } | AttemptMessage::Result {} => {}
        }
        self.news.pass_on(&message);
    }
    fn raw(&self, line: &str) {
        self.message(AttemptMessage::Log { level: LogLevel::Info, text: line.to_string() });
    }
    fn waits(&self, why: Option<&str>) {
        self.news.waits(why);
    }
}

/// Appends a record; returns its size in bytes.
fn push(log: &mut String, now: i64, level: LogLevel, text: &str) -> usize {
    let before = log.len();
    log.push_str(&LogRecord { at: Some(now), level, text: text.to_string() }.to_line());
    log.push('\n');
    log.len() - before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Act, Watcher, context, fake};
    use serde_json::json;
    use trainyard_core::attempt::AttemptSpec;
    use trainyard_core::clock::ManualClock;
    use trainyard_core::{Digest, Error};
    use trainyard_store::StoreOptions;
    use trainyard_store::faults::{Fault, Faulty};

    /// A sink over a store that fails on command.
    async fn sink() -> (Arc<Faulty>, Store, Sink) {
        let faulty = Faulty::new(Arc::new(object_store::memory::InMemory::new()));
        let store = Store::over(faulty.clone(), "memory://faulty", StoreOptions::default()).await.unwrap();
        let spec = json!({
            "format": 1, "workflow": "w", "run": "20261121-000000-000000", "stage": "a", "attempt": 1,
            "stage_digest": Digest::of(b"a"), "kind": "test", "kind_version": 1, "config": null, "inputs": {},
            "outputs": {}, "resources": {"cpus": 1},
        });
        let spec: Arc<AttemptSpec> = Arc::new(serde_json::from_value(spec).unwrap());
        let mut context = context(&store, fake(|_| Act::Succeed), &Arc::new(Watcher::default()));
        context.clock = Arc::new(ManualClock::at_millis(NOW));
        (faulty, store, Sink::new(&News::new(&context, &spec, None)))
    }

    const NOW: i64 = 1_795_234_530_042;

    /// What the store has of the log.
    async fn stored(store: &Store, sink: &Sink) -> Vec<LogRecord> {
        let (text, _) = store.read_chunks(&sink.news.spec.run, &sink.news.spec.stage, 1, Chunk::Log, 0).await.unwrap();
        String::from_utf8(text).unwrap().lines().map(LogRecord::parse).collect()
    }

    async fn texts(store: &Store, sink: &Sink) -> Vec<String> {
        stored(store, sink).await.into_iter().map(|record| record.text).collect()
    }

    #[tokio::test]
    async fn records_have_the_clocks_time_and_their_level() {
        let (_, store, sink) = sink().await;
        sink.raw("two\nlines");
        sink.message(AttemptMessage::Log { level: LogLevel::Warn, text: "careful".into() });
        let error = Error::lost("gone").caused_by(&std::io::Error::other("reset by peer"));
        sink.message(AttemptMessage::Error { error });
        sink.put().await.unwrap();
        let record = |level, text: &str| LogRecord { at: Some(NOW), level, text: text.to_string() };
        let expected = [
            record(LogLevel::Info, "two\nlines"),
            record(LogLevel::Warn, "careful"),
            record(LogLevel::Error, "gone\n  caused by: reset by peer"),
        ];
        assert_eq!(stored(&store, &sink).await, expected);
    }

    #[tokio::test]
    async fn a_chunk_that_fails_is_put_again_and_hides_nothing_behind_it() {
        let (faulty, store, sink) = sink().await;
        sink.raw("one");
        sink.put().await.unwrap();
        sink.raw("two");
        faulty.inject(Fault::Denied, "/log/", 1);
        sink.put().await.unwrap_err();
        sink.raw("three");
        assert_eq!(texts(&store, &sink).await, ["one"]);
        sink.put().await.unwrap();
        assert_eq!(texts(&store, &sink).await, ["one", "two", "three"]);
    }

    #[tokio::test]
    async fn chunks_of_an_earlier_engine_stay_in_front() {
        let (_, store, sink) = sink().await;
        let spec = sink.news.spec.clone();
        let before =
            store.put_chunk(&spec.run, &spec.stage, 1, Chunk::Log, 0, Bytes::from_static(b"before\n")).await.unwrap();
        assert_eq!(before, Created::Ours);
        sink.raw("after");
        sink.put().await.unwrap();
        assert_eq!(texts(&store, &sink).await, ["before", "after"]);
        assert_eq!(stored(&store, &sink).await[0].at, None, "chunks of earlier versions have no times");
    }

    #[tokio::test]
    async fn a_store_that_stays_away_costs_no_more_memory_than_the_limit() {
        let (faulty, store, sink) = sink().await;
        let line = "x".repeat(1 << 20);
        faulty.inject(Fault::Denied, "/log/", 1);
        sink.raw(&line);
        sink.put().await.unwrap_err();
        for _ in 0..20 {
            sink.raw(&line);
        }
        let record = push(&mut String::new(), NOW, LogLevel::Info, &line);
        let waiting = sink.buffers().log.waiting();
        assert!((LIMIT..=LIMIT + record).contains(&waiting), "{waiting}");
        sink.put().await.unwrap();
        let texts = texts(&store, &sink).await;
        let lines = texts.iter().filter(|l| **l == line).count();
        let dropped = format!("[{} bytes of log were dropped", (21 - lines) * record);
        assert!(texts.last().unwrap().starts_with(&dropped), "the log says what it lacks");
    }
}
