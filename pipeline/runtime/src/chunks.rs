//! Writes the log and the learning curves of an attempt to the store, in numbered chunks while it runs, and its last
//! progress.
//!
//! The engine does this for attempts whose pipes it holds; other attempts do it themselves. A chunk is stored every few
//! seconds or when it is large, so `trainyard logs` can show a running stage and a crash loses little. A chunk whose
//! write failed is retried under its number, while later output is buffered up to a limit. If the store stays
//! unavailable, the end of the log is lost; the attempt is not affected.

use crate::progress::ProgressBuffer;
use crate::retry::{SHORT_RETRY_DELAYS, with_retries};
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::Instrument as _;
use trainyard_core::attempt::{AttemptMessage, AttemptSpec, LogLevel, LogRecord};
use trainyard_core::{AttemptNumber, Clock, Result, RunId, StageKey};
use trainyard_store::streams::PAGE;
use trainyard_store::{AttemptStream, CreateOutcome, Store};

/// Time between chunks, unless one is full earlier.
const EVERY: Duration = Duration::from_secs(2);
/// Size in bytes at which a chunk is stored at once.
const FULL: usize = 256 * 1024;
/// Minimum number of chunks that are merged into a page at the end.
const FEW: usize = 8;
/// Maximum number of bytes buffered for a slow store; anything beyond is dropped and counted.
const LIMIT: usize = 8 << 20;

/// Stores the messages of an attempt.
pub struct ChunkWriter {
    /// Store without retries: failed writes stay buffered here and must not delay the attempt's end.
    store: Store,
    run: RunId,
    stage: StageKey,
    attempt: AttemptNumber,
    /// Clock for the timestamps of records.
    clock: Arc<dyn Clock>,
    /// Called when the store does not accept the log.
    on_failure: Box<dyn Fn(&str) + Send + Sync>,
    buffers: Mutex<ChunkBuffers>,
    progress: Mutex<ProgressBuffer>,
    /// Held while chunks are stored: two concurrent writes of one chunk would count it twice.
    flush_lock: tokio::sync::Mutex<()>,
    full: Notify,
    closed: Notify,
}

/// Buffered stream of an attempt.
#[derive(Default)]
struct ChunkStream {
    /// Text not yet cut into a chunk.
    text: String,
    /// Chunk not known to be stored. It is retried unchanged, since a failed write may have succeeded.
    chunk: Option<Bytes>,
    /// Number of that chunk, or of the next one.
    number: u32,
    /// Stored chunks since the last multiple of [`PAGE`]; they become a page.
    page: Vec<Bytes>,
    /// Whether the store was checked for chunks of an earlier process.
    checked: bool,
}

#[derive(Default)]
struct ChunkBuffers {
    log: ChunkStream,
    metrics: ChunkStream,
    dropped: usize,
}

impl ChunkStream {
    fn waiting(&self) -> usize {
        self.text.len() + self.chunk.as_ref().map_or(0, Bytes::len)
    }
}

impl ChunkBuffers {
    fn stream(&mut self, which: AttemptStream) -> &mut ChunkStream {
        match which {
            AttemptStream::Log => &mut self.log,
            AttemptStream::Metrics => &mut self.metrics,
        }
    }

    /// Returns the next chunk to store and its number: the pending one, or else all buffered text. `now` is the time of
    /// a record about dropped bytes.
    fn cut(&mut self, which: AttemptStream, now: i64) -> Option<(u32, Bytes)> {
        if which == AttemptStream::Log && self.dropped > 0 && self.log.chunk.is_none() {
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

impl ChunkWriter {
    /// Creates a writer for the attempt `spec`, and the task that stores its messages until [`ChunkWriter::close`]. The
    /// task ends when all messages are stored or given up. `on_failure` is called with one sentence when the store
    /// stops accepting chunks. Must be called in a tokio runtime.
    pub fn open(
        store: &Store,
        spec: &AttemptSpec,
        clock: Arc<dyn Clock>,
        on_failure: impl Fn(&str) + Send + Sync + 'static,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let writer = Arc::new(Self::new(store, spec, clock, on_failure));
        let task = tokio::spawn(writer.clone().put_until_closed().in_current_span());
        (writer, task)
    }
    fn new(
        store: &Store,
        spec: &AttemptSpec,
        clock: Arc<dyn Clock>,
        on_failure: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Self {
            store: store.with_outage(Duration::ZERO),
            run: spec.run.clone(),
            stage: spec.stage.clone(),
            attempt: spec.attempt,
            clock,
            on_failure: Box::new(on_failure),
            buffers: Mutex::default(),
            progress: Mutex::default(),
            flush_lock: tokio::sync::Mutex::default(),
            full: Notify::new(),
            closed: Notify::new(),
        }
    }
    /// Appends one record to the stored log of an attempt that has ended, and waits until it is stored. Errors: those
    /// of the store.
    pub async fn append_after_end(store: &Store, spec: &AttemptSpec, clock: Arc<dyn Clock>, text: &str) -> Result<()> {
        let writer = Self::new(store, spec, clock, |_| {});
        let next = writer.store.next_chunk(&spec.run, &spec.stage, spec.attempt, AttemptStream::Log).await?;
        {
            let mut buffers = writer.buffers();
            (buffers.log.number, buffers.log.checked) = (next, true);
        }
        writer.log(LogLevel::Info, text);
        with_retries(&writer.store, &SHORT_RETRY_DELAYS, || writer.put()).await
    }
    /// Records a message: log lines and errors become log records, points of learning curves become metric lines; of
    /// progress the last is stored, and other messages are not.
    pub fn message(&self, message: &AttemptMessage) {
        match message {
            AttemptMessage::Log { level, text } => self.log(*level, text),
            AttemptMessage::Error { error } => {
                let causes = error.causes().map(|cause| format!("\n  caused by: {cause}"));
                self.log(LogLevel::Error, &format!("{error}{}", causes.collect::<String>()));
            }
            AttemptMessage::Metric { .. } => {
                if let Ok(line) = serde_json::to_string(message) {
                    self.append(|b| {
                        b.metrics.text.push_str(&line);
                        b.metrics.text.push('\n');
                        line.len()
                    });
                }
            }
            AttemptMessage::Progress { .. } => self.progress().message(message, self.clock.as_ref()),
            AttemptMessage::Checkpoint { .. } | AttemptMessage::Result {} => {}
        }
    }
    /// Stores the messages recorded so far; retries for a second or two, then calls `on_failure`.
    pub async fn flush(&self) {
        if let Err(error) = with_retries(&self.store, &SHORT_RETRY_DELAYS, || self.put()).await {
            (self.on_failure)(&format!("the end of the log of {} was not stored: {error}", self.stage));
        }
    }
    /// Ends the task once it has stored the remaining messages.
    pub fn close(&self) {
        self.closed.notify_one();
    }

    async fn put_until_closed(self: Arc<Self>) {
        let mut failing = false;
        loop {
            tokio::select! {
                biased;
                () = self.closed.notified() => break,
                // While the store fails, retry on schedule, not at every line.
                () = self.full.notified(), if !failing => {}
                () = tokio::time::sleep(EVERY) => {}
            }
            match self.put().await {
                Ok(()) => failing = false,
                Err(error) => {
                    if !failing {
                        (self.on_failure)(&format!("cannot store the log of {} for now: {error}", self.stage));
                    }
                    failing = true;
                }
            }
        }
        self.flush().await;
        for which in [AttemptStream::Log, AttemptStream::Metrics] {
            let few = self.buffers().stream(which).page.len() < FEW;
            if !few {
                self.put_page(which).await;
            }
        }
    }

    /// Stores all buffered messages. Errors: those of the store; rejected messages stay buffered.
    async fn put(&self) -> Result<()> {
        let _turn = self.flush_lock.lock().await;
        self.put_progress().await;
        let log = self.put_stream(AttemptStream::Log).await;
        self.put_stream(AttemptStream::Metrics).await.and(log)
    }

    /// Stores the progress if it is due. A failed write is only logged, since the next report may succeed.
    async fn put_progress(&self) {
        let due = self.progress().take_due(self.clock.monotonic());
        let Some(record) = due else { return };
        if let Err(error) = self.store.put_progress(&self.run, &self.stage, self.attempt, &record).await {
            tracing::info!(%error, "the progress was not stored");
        }
    }

    async fn put_stream(&self, which: AttemptStream) -> Result<()> {
        let pending = self.buffers().stream(which).chunk.is_some();
        self.put_chunk(which).await?;
        if pending {
            // Text buffered while that chunk was pending.
            self.put_chunk(which).await?;
        }
        Ok(())
    }

    async fn put_chunk(&self, which: AttemptStream) -> Result<()> {
        loop {
            let next = self.buffers().cut(which, self.clock.unix_millis());
            let Some((number, chunk)) = next else { return Ok(()) };
            let checked = self.buffers().stream(which).checked;
            if !checked {
                self.look_for_pages(which).await?;
                continue;
            }
            let put = self.store.put_chunk(&self.run, &self.stage, self.attempt, which, number, chunk.clone());
            let is_ours = put.await? == CreateOutcome::Ours;
            if self.advance(which, is_ours.then_some(chunk)) {
                self.put_page(which).await;
            }
            if is_ours {
                return Ok(());
            }
            // An earlier process stored a chunk under this number; try the next number.
        }
    }

    /// Finds the first free number: chunks of an earlier process may have moved into pages, so that their numbers seem
    /// free.
    async fn look_for_pages(&self, which: AttemptStream) -> Result<()> {
        let (run, stage) = (&self.run, &self.stage);
        let next = if self.store.has_pages(run, stage, self.attempt, which).await? {
            self.store.next_chunk(run, stage, self.attempt, which).await?
        } else {
            0
        };
        let mut buffers = self.buffers();
        let stream = buffers.stream(which);
        (stream.checked, stream.number) = (true, next);
        Ok(())
    }

    /// Advances past a stored chunk; `ours` is set if this writer stored it. Returns whether a page is full.
    fn advance(&self, which: AttemptStream, ours: Option<Bytes>) -> bool {
        let mut buffers = self.buffers();
        let stream = buffers.stream(which);
        match ours {
            Some(chunk) => {
                stream.chunk = None;
                if stream.number as usize % PAGE as usize == stream.page.len() {
                    stream.page.push(chunk);
                }
            }
            None => stream.page.clear(),
        }
        // Readers stop at the first missing number, so it may only advance past a stored chunk.
        stream.number += 1;
        stream.page.len() == PAGE as usize
    }

    /// Merges the chunks collected since the last page boundary into one object. If the write fails, the chunks stay
    /// separate.
    async fn put_page(&self, which: AttemptStream) {
        let (first, chunks) = {
            let mut buffers = self.buffers();
            let stream = buffers.stream(which);
            let chunks = std::mem::take(&mut stream.page);
            (stream.number.saturating_sub(chunks.len() as u32), chunks)
        };
        if let Err(error) = self.store.put_page(&self.run, &self.stage, self.attempt, which, first, &chunks).await {
            tracing::info!(%error, "cannot merge chunks of a log into a page");
        }
    }

    fn log(&self, level: LogLevel, text: &str) {
        let now = self.clock.unix_millis();
        self.append(|b| push(&mut b.log.text, now, level, text));
    }

    fn append(&self, write: impl FnOnce(&mut ChunkBuffers) -> usize) {
        let mut buffers = self.buffers();
        if buffers.log.waiting() + buffers.metrics.waiting() > LIMIT {
            let mut discarded = ChunkBuffers::default();
            buffers.dropped += write(&mut discarded);
            return;
        }
        write(&mut buffers);
        if buffers.log.text.len() + buffers.metrics.text.len() > FULL {
            self.full.notify_one();
        }
    }

    fn progress(&self) -> MutexGuard<'_, ProgressBuffer> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn buffers(&self) -> MutexGuard<'_, ChunkBuffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Appends a record to `log`; returns its size in bytes.
fn push(log: &mut String, now: i64, level: LogLevel, text: &str) -> usize {
    let before = log.len();
    log.push_str(&LogRecord { at: Some(now), level, text: text.to_string() }.to_line());
    log.push('\n');
    log.len() - before
}

#[cfg(test)]
mod tests;
