//! Logs and learning curves of an attempt, kept in the store in chunks while it runs.
//!
//! A chunk is put every few seconds or when it is large, so `trainyard logs` sees a running stage and a crash loses little. One
//! that the store does not take is kept and put again under its number, and what follows gathers behind it, up to a bound. A store
//! that stays away loses the end of the log, not the attempt.

use crate::executors::Reports;
use crate::patience::{SHORT_WAITS, patiently};
use crate::world::World;
use bytes::Bytes;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use trainyard_core::Result;
use trainyard_core::attempt::{AttemptMessage, AttemptSpec, LogLevel};
use trainyard_engine::{Input, NodeId};
use trainyard_store::{Chunk, Created};

/// Between chunks, unless one is full before.
const EVERY: Duration = Duration::from_secs(2);
/// Bytes after which a chunk is put at once.
const FULL: usize = 256 * 1024;
/// Bytes that may wait for a slow store; what comes beyond is dropped and counted.
const LIMIT: usize = 8 << 20;

/// Receives what an attempt says.
pub(crate) struct Sink {
    world: World,
    spec: Arc<AttemptSpec>,
    buffers: Mutex<Buffers>,
    full: Notify,
    closed: Notify,
    /// Where the engine hears of waiting.
    engine: Option<(UnboundedSender<Input>, NodeId)>,
}

/// One stream of an attempt on its way to the store.
#[derive(Default)]
struct Stream {
    /// Not yet cut into a chunk.
    text: String,
    /// Cut, and not known to be stored. It is put again as it is, since a put that failed may have landed.
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

    /// The chunk to put next and its number: the one that is not stored yet, else all that waits.
    fn cut(&mut self, which: Chunk) -> Option<(u32, Bytes)> {
        if which == Chunk::Log && self.dropped > 0 && self.log.chunk.is_none() {
            let line = format!("[{} bytes of log were dropped: the store was too slow]\n", self.dropped);
            self.log.text.push_str(&line);
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
    /// A sink and the task that empties it; the task ends after [`Sink::close`].
    pub fn open(
        world: &World,
        spec: &Arc<AttemptSpec>,
        engine: Option<(UnboundedSender<Input>, NodeId)>,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let sink = Arc::new(Self { engine, ..Self::new(world, spec) });
        let task = tokio::spawn(sink.clone().empty_until_closed());
        (sink, task)
    }
    fn new(world: &World, spec: &Arc<AttemptSpec>) -> Self {
        Self {
            world: world.clone(),
            spec: spec.clone(),
            buffers: Mutex::default(),
            full: Notify::new(),
            closed: Notify::new(),
            engine: None,
        }
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
                // A store that fails is asked at its time, not at every line.
                () = self.full.notified(), if !failing => {}
                () = self.closed.notified() => break,
            }
            match self.put().await {
                Ok(()) => failing = false,
                Err(error) => {
                    if !failing {
                        self.note(&format!("the log of {} is not kept for now: {error}", self.spec.stage));
                    }
                    failing = true;
                }
            }
        }
        if let Err(error) = patiently(&SHORT_WAITS, || self.put()).await {
            self.note(&format!("the end of the log of {} was not kept: {error}", self.spec.stage));
        }
    }

    fn note(&self, text: &str) {
        self.world.observer.note(text);
    }

    /// Puts all that waits. Errors: those of the store; what it did not take waits for the next time.
    async fn put(&self) -> Result<()> {
        let log = self.put_stream(Chunk::Log).await;
        self.put_stream(Chunk::Metrics).await.and(log)
    }

    async fn put_stream(&self, which: Chunk) -> Result<()> {
        let left_over = self.buffers().stream(which).chunk.is_some();
        self.put_chunk(which).await?;
        if left_over {
            // What gathered behind it.
            self.put_chunk(which).await?;
        }
        Ok(())
    }

    async fn put_chunk(&self, which: Chunk) -> Result<()> {
        let spec = &self.spec;
        loop {
            let next = self.buffers().cut(which);
            let Some((number, chunk)) = next else { return Ok(()) };
            let created =
                self.world.store.put_chunk(&spec.run, &spec.stage, spec.attempt, which, number, chunk).await?;
            let mut buffers = self.buffers();
            let stream = buffers.stream(which);
            // Readers stop at the first number that is missing, so it grows only past a chunk that stands.
            stream.number += 1;
            if created == Created::Ours {
                stream.chunk = None;
                return Ok(());
            }
            // An earlier engine's chunk stands there; ours goes behind it.
        }
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
            AttemptMessage::Log { level, text } => self.append(|b| push(&mut b.log.text, *level, text)),
            AttemptMessage::Error { error } => {
                self.append(|b| push(&mut b.log.text, LogLevel::Error, &error.to_string()))
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
            AttemptMessage::Progress { .. } | AttemptMessage::Checkpoint { .. } | AttemptMessage::Result {} => {}
        }
        self.world.observer.message(&self.spec.stage, self.spec.attempt, &message);
    }
    fn raw(&self, line: &str) {
        self.message(AttemptMessage::Log { level: LogLevel::Info, text: line.to_string() });
    }
    fn waits(&self, why: Option<&str>) {
        if let Some((happened, node)) = &self.engine {
            let input = Input::Waits { node: *node, attempt: self.spec.attempt, why: why.map(str::to_string) };
            // Nobody listens any more only when the run is over.
            let _ = happened.send(input);
        }
    }
}

/// Warnings and errors say so in front.
fn push(log: &mut String, level: LogLevel, text: &str) -> usize {
    let before = log.len();
    let mark = match level {
        LogLevel::Info => "",
        LogLevel::Warn => "warning: ",
        LogLevel::Error => "error: ",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(log, "{mark}{text}");
    log.len() - before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Act, Watcher, fake, world};
    use serde_json::json;
    use trainyard_core::Digest;
    use trainyard_store::faults::{Fault, Faulty};
    use trainyard_store::{Store, StoreOptions};

    /// A sink over a store that fails on command.
    async fn sink() -> (Arc<Faulty>, Store, Sink) {
        let faulty = Faulty::new(Arc::new(object_store::memory::InMemory::new()));
        let store = Store::over(faulty.clone(), "memory://faulty", StoreOptions::default()).await.unwrap();
        let spec = json!({
            "format": 1, "workflow": "w", "run": "20261121-000000-000000", "stage": "a", "attempt": 1, "stage_digest": Digest::of(b"a"),
            "kind": "test", "kind_version": 1, "config": null, "inputs": {}, "outputs": {}, "resources": {"cpus": 1},
        });
        let spec: Arc<AttemptSpec> = Arc::new(serde_json::from_value(spec).unwrap());
        let sink = Sink::new(&world(&store, fake(|_| Act::Succeed), &Arc::new(Watcher::default())), &spec);
        (faulty, store, sink)
    }

    async fn kept(store: &Store, sink: &Sink) -> String {
        let (text, _) = store.read_chunks(&sink.spec.run, &sink.spec.stage, 1, Chunk::Log, 0).await.unwrap();
        String::from_utf8(text).unwrap()
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
        assert_eq!(kept(&store, &sink).await, "one\n");
        sink.put().await.unwrap();
        assert_eq!(kept(&store, &sink).await, "one\ntwo\nthree\n");
    }

    #[tokio::test]
    async fn what_an_earlier_engine_wrote_stays_in_front() {
        let (_, store, sink) = sink().await;
        let spec = sink.spec.clone();
        let before =
            store.put_chunk(&spec.run, &spec.stage, 1, Chunk::Log, 0, Bytes::from_static(b"before\n")).await.unwrap();
        assert_eq!(before, Created::Ours);
        sink.raw("after");
        sink.put().await.unwrap();
        assert_eq!(kept(&store, &sink).await, "before\nafter\n");
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
        let waiting = sink.buffers().log.waiting();
        assert!((LIMIT..=LIMIT + line.len() + 1).contains(&waiting), "{waiting}");
        sink.put().await.unwrap();
        let text = kept(&store, &sink).await;
        let lines = text.lines().filter(|l| *l == line).count();
        let dropped = format!("[{} bytes of log were dropped", (21 - lines) * (line.len() + 1));
        assert!(text.lines().last().unwrap().starts_with(&dropped), "the log says what it lacks");
    }
}
