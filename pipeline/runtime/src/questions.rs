//! Questions and publications to the store: as many as there are wait in one line, and a few are under way.
//!
//! A run of 100,000 stages asks so much that a task for each question would cost more than most answers.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::Instrument as _;
use trainyard_engine::Input;

/// Questions under way at the same time.
const CONCURRENT: usize = 48;

/// The line.
pub(crate) struct Questions(UnboundedSender<BoxFuture<'static, Input>>);

impl Questions {
    /// Answers go to `happened` as they come.
    pub fn new(happened: &UnboundedSender<Input>) -> Self {
        let (asked, line) = unbounded_channel();
        let line = Arc::new(Mutex::new(line));
        for _ in 0..CONCURRENT {
            tokio::spawn(answer(line.clone(), happened.clone()));
        }
        Self(asked)
    }
    /// Asks when its turn comes.
    pub fn ask(&self, question: impl Future<Output = Input> + Send + 'static) {
        // Those who answer live as long as this does.
        let _ = self.0.send(question.in_current_span().boxed());
    }
}

async fn answer(line: Arc<Mutex<UnboundedReceiver<BoxFuture<'static, Input>>>>, happened: UnboundedSender<Input>) {
    loop {
        let next = line.lock().await.recv().await;
        let Some(question) = next else { return };
        // Sending fails only when the run is over.
        let _ = happened.send(question.await);
    }
}
