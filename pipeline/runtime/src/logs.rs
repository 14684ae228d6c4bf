//! Logs and learning curves of an attempt, kept in the store in chunks while it runs.
//!
//! A chunk is put every few seconds or when it is large, so `trainyard logs` sees a running stage and a crash loses little. A
//! store that does not take a chunk loses that chunk, not the attempt.

use crate::executors::Reports;
use crate::world::World;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use trainyard_core::attempt::{AttemptMessage, AttemptSpec, LogLevel};
use trainyard_store::Chunk;

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
}

#[derive(Default)]
struct Buffers {
    log: String,
    metrics: String,
    dropped: usize,
    log_chunks: u32,
    metric_chunks: u32,
}

impl Sink {
    /// A sink and the task that empties it; the task ends after [`Sink::close`].
    pub fn open(world: &World, spec: &Arc<AttemptSpec>) -> (Arc<Self>, JoinHandle<()>) {
        let sink = Arc::new(Self {
            world: world.clone(),
            spec: spec.clone(),
            buffers: Mutex::default(),
            full: Notify::new(),
            closed: Notify::new(),
        });
        let task = tokio::spawn(sink.clone().empty_until_closed());
        (sink, task)
    }
    /// Puts what is left and ends the task.
    pub fn close(&self) {
        self.closed.notify_one();
    }

    async fn empty_until_closed(self: Arc<Self>) {
        loop {
            let over = tokio::select! {
                () = tokio::time::sleep(EVERY) => false,
                () = self.full.notified() => false,
                () = self.closed.notified() => true,
            };
            self.put().await;
            if over {
                return;
            }
        }
    }

    async fn put(&self) {
        let (log, metrics, log_number, metric_number) = {
            let mut b = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
            if b.dropped > 0 {
                let line = format!("[{} bytes of log were dropped: the store was too slow]\n", b.dropped);
                b.log.push_str(&line);
                b.dropped = 0;
            }
            let taken = (std::mem::take(&mut b.log), std::mem::take(&mut b.metrics), b.log_chunks, b.metric_chunks);
            b.log_chunks += u32::from(!taken.0.is_empty());
            b.metric_chunks += u32::from(!taken.1.is_empty());
            taken
        };
        for (stream, text, number) in [(Chunk::Log, log, log_number), (Chunk::Metrics, metrics, metric_number)] {
            if text.is_empty() {
                continue;
            }
            let spec = &self.spec;
            if let Err(error) = self.world.store.put_chunk(&spec.run, &spec.stage, spec.attempt, stream, number, text.into()).await {
                self.world.observer.note(&format!("a piece of the log of {} was not kept: {error}", spec.stage));
            }
        }
    }

    fn append(&self, write: impl FnOnce(&mut Buffers) -> usize) {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let size = buffers.log.len() + buffers.metrics.len();
        if size > LIMIT {
            let mut aside = Buffers::default();
            buffers.dropped += write(&mut aside);
            return;
        }
        let added = write(&mut buffers);
        if size + added > FULL {
            self.full.notify_one();
        }
    }
}

impl Reports for Sink {
    fn message(&self, message: AttemptMessage) {
        match &message {
            AttemptMessage::Log { level, text } => self.append(|b| push(&mut b.log, *level, text)),
            AttemptMessage::Error { error } => self.append(|b| push(&mut b.log, LogLevel::Error, &error.to_string())),
            AttemptMessage::Metric { .. } => {
                if let Ok(line) = serde_json::to_string(&message) {
                    self.append(|b| {
                        b.metrics.push_str(&line);
                        b.metrics.push('\n');
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
