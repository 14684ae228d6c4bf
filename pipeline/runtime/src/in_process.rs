//! Runs the attempts of trivial kinds on threads of this process that may block.
//!
//! The attempts share one queue, because waking a thread for each attempt would take longer than most attempts. The
//! thread that takes the first attempt wakes a second thread if there are more, which wakes a third: slow attempts soon
//! get a thread each, while quick ones are done before the second thread arrives.

use crate::context::InProcessRunner;
use crate::launch::outcome_of;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::UnboundedSender;
use tracing::Span;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, panics};
use trainyard_engine::{AttemptCompletion, Input, NodeId};

/// Attempt to run.
pub(crate) struct InProcessAttempt {
    pub node: NodeId,
    pub spec: Arc<AttemptSpec>,
    /// Tracing span of the attempt.
    pub span: Span,
}

/// Thread pool with its queue.
#[derive(Clone)]
pub(crate) struct InProcessPool(Arc<InProcessShared>);

struct InProcessShared {
    kinds: Arc<dyn InProcessRunner>,
    inputs: UnboundedSender<Input>,
    queue: Mutex<InProcessQueue>,
}

#[derive(Default)]
struct InProcessQueue {
    waiting: VecDeque<InProcessAttempt>,
    /// Whether a thread was woken that has not taken an attempt yet.
    wake_pending: bool,
}

impl InProcessPool {
    /// Creates a queue that reports ends to `inputs`.
    pub fn new(kinds: Arc<dyn InProcessRunner>, inputs: UnboundedSender<Input>) -> Self {
        Self(Arc::new(InProcessShared { kinds, inputs, queue: Mutex::default() }))
    }

    /// Runs attempts in their order. Must be called in a tokio runtime.
    pub fn run(&self, attempts: Vec<InProcessAttempt>) {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.extend(attempts);
        let wake = !queue.waiting.is_empty() && !std::mem::replace(&mut queue.wake_pending, true);
        drop(queue);
        if wake {
            self.spawn_worker();
        }
    }

    fn spawn_worker(&self) {
        let pool = self.clone();
        tokio::task::spawn_blocking(move || pool.work());
    }

    /// Works on one thread until the queue is empty.
    fn work(&self) {
        let mut just_woken = true;
        loop {
            let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
            if std::mem::take(&mut just_woken) {
                queue.wake_pending = false;
            }
            let Some(next) = queue.waiting.pop_front() else { return };
            let wake = !queue.waiting.is_empty() && !std::mem::replace(&mut queue.wake_pending, true);
            drop(queue);
            if wake {
                self.spawn_worker();
            }
            let InProcessAttempt { node, spec, span } = next;
            let attempt = spec.attempt;
            let finished = span.in_scope(|| self.attempt(&spec));
            // Sending fails only when the run is over.
            let _ = self.0.inputs.send(Input::Ended { node, attempt, finished });
        }
    }

    fn attempt(&self, spec: &AttemptSpec) -> AttemptCompletion {
        tracing::info!("attempt started");
        let finished = match panics::catch(|| self.0.kinds.run(spec)) {
            Ok(Ok(result)) => AttemptCompletion::succeeded(result),
            Ok(Err(error)) => AttemptCompletion::failed(outcome_of(&error), error),
            Err(message) => AttemptCompletion::failed(
                AttemptOutcome::Failed,
                Error::bug(format!("stage kind `{}` panicked: {message}", spec.kind)),
            ),
        };
        let error = finished.error.as_ref().map(tracing::field::display);
        tracing::info!(outcome = ?finished.outcome, error, "attempt ended");
        finished
    }
}
