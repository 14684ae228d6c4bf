//! Writes messages of an attempt on the engine's pipes to its stored log, and forwards them.

use crate::chunks::ChunkWriter;
use crate::executors::Reports;
use crate::news::News;
use std::sync::Arc;
use tokio::task::JoinHandle;
use trainyard_core::Result;
use trainyard_core::attempt::{AttemptMessage, LogLevel};

/// Receiver of an attempt's messages.
pub(crate) struct Sink {
    news: Arc<News>,
    chunks: Arc<ChunkWriter>,
}

impl Sink {
    /// Creates a sink, and the task that empties it until [`Sink::close`].
    pub fn open(news: &Arc<News>) -> (Arc<Self>, JoinHandle<()>) {
        let (context, hears) = (&news.context, news.clone());
        let trouble = move |text: &str| hears.note(text);
        let (chunks, emptying) = ChunkWriter::open(&context.store, &news.spec, context.clock.clone(), trouble);
        (Arc::new(Self { news: news.clone(), chunks }), emptying)
    }
    /// Appends text to the log that an attempt has stored itself. The attempt must not run any more.
    pub async fn append_behind(news: &Arc<News>, text: &str) -> Result<()> {
        let context = &news.context;
        ChunkWriter::append_behind(&context.store, &news.spec, context.clock.clone(), text).await
    }
    /// Stores the remaining messages and ends the task.
    pub fn close(&self) {
        self.chunks.close();
    }
}

impl Reports for Sink {
    fn message(&self, message: AttemptMessage) {
        self.chunks.message(&message);
        self.news.pass_on(&message);
    }
    fn raw(&self, line: &str) {
        self.message(AttemptMessage::Log { level: LogLevel::Info, text: line.to_string() });
    }
    fn waits(&self, why: Option<&str>) {
        self.news.waits(why);
    }
}
