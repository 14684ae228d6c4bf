//! Queue of queries and publications to the store, processed by a fixed number of tasks.
//!
//! A run of 100,000 stages makes so many queries that a task for each would cost more than most responses.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::Instrument as _;
use trainyard_engine::Input;

/// Number of concurrent queries.
const CONCURRENT: usize = 48;

/// Queue of queries.
pub(crate) struct QueryQueue(UnboundedSender<BoxFuture<'static, Input>>);

impl QueryQueue {
    /// Creates a queue that sends results to `happened` as they arrive.
    pub fn new(happened: &UnboundedSender<Input>) -> Self {
        let (asked, line) = unbounded_channel();
        let line = Arc::new(Mutex::new(line));
        for _ in 0..CONCURRENT {
            tokio::spawn(run_queries(line.clone(), happened.clone()));
        }
        Self(asked)
    }
    /// Queues a query.
    pub fn submit(&self, question: impl Future<Output = Input> + Send + 'static) {
        // The receiving tasks live as long as this queue.
        let _ = self.0.send(question.in_current_span().boxed());
    }
}

async fn run_queries(line: Arc<Mutex<UnboundedReceiver<BoxFuture<'static, Input>>>>, happened: UnboundedSender<Input>) {
    loop {
        let next = line.lock().await.recv().await;
        let Some(question) = next else { return };
        // Sending fails only when the run is over.
        let _ = happened.send(question.await);
    }
}
