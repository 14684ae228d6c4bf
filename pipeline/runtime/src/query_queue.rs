//! Queues queries and publications to the store for a fixed number of tasks.
//!
//! A run of 100,000 stages makes so many queries that spawning a task for each would take longer than most queries.

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
    /// Creates a queue that sends results to `inputs` as they arrive.
    pub fn new(inputs: &UnboundedSender<Input>) -> Self {
        let (sender, receiver) = unbounded_channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..CONCURRENT {
            tokio::spawn(run_queries(receiver.clone(), inputs.clone()));
        }
        Self(sender)
    }
    /// Queues a query.
    pub fn submit(&self, query: impl Future<Output = Input> + Send + 'static) {
        // The receiving tasks live as long as this queue.
        let _ = self.0.send(query.in_current_span().boxed());
    }
}

async fn run_queries(
    receiver: Arc<Mutex<UnboundedReceiver<BoxFuture<'static, Input>>>>,
    inputs: UnboundedSender<Input>,
) {
    loop {
        let next = receiver.lock().await.recv().await;
        let Some(query) = next else { return };
        // Sending fails only when the run is over.
        let _ = inputs.send(query.await);
    }
}
