//! Stores the messages of an attempt on the engine's pipes in the attempt's log, and forwards them.

use crate::chunks::ChunkWriter;
use crate::executors::AttemptReporter;
use crate::notifier::AttemptNotifier;
use std::sync::Arc;
use tokio::task::JoinHandle;
use trainyard_core::Result;
use trainyard_core::attempt::{AttemptMessage, LogLevel};

/// Receiver of an attempt's messages.
pub(crate) struct LogSink {
    notifier: Arc<AttemptNotifier>,
    chunks: Arc<ChunkWriter>,
}

impl LogSink {
    /// Creates a sink, and the task that empties it until [`LogSink::close`].
    pub fn open(notifier: &Arc<AttemptNotifier>) -> (Arc<Self>, JoinHandle<()>) {
        let (context, listener) = (&notifier.context, notifier.clone());
        let on_failure = move |text: &str| listener.note(text);
        let (chunks, writer_task) =
            ChunkWriter::open(&context.store, &notifier.spec, context.clock.clone(), on_failure);
        (Arc::new(Self { notifier: notifier.clone(), chunks }), writer_task)
    }
    /// Appends text to the log that an attempt has stored itself. The attempt must have ended.
    pub async fn append_after_end(notifier: &Arc<AttemptNotifier>, text: &str) -> Result<()> {
        let context = &notifier.context;
        ChunkWriter::append_after_end(&context.store, &notifier.spec, context.clock.clone(), text).await
    }
    /// Stores the remaining messages and ends the task.
    pub fn close(&self) {
        self.chunks.close();
    }
}

impl AttemptReporter for LogSink {
    fn message(&self, message: AttemptMessage) {
        self.chunks.message(&message);
        self.notifier.pass_on(&message);
    }
    fn raw(&self, line: &str) {
        self.message(AttemptMessage::Log { level: LogLevel::Info, text: line.to_string() });
    }
    fn waits(&self, why: Option<&str>) {
        self.notifier.waits(why);
    }
}
