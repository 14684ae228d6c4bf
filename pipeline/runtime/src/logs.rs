//! The engine's end of an attempt's pipes: what the attempt says goes to its stored log, to the engine and to whoever
//! watches the run.

use crate::chunks::ChunkWriter;
use crate::context::RunContext;
use crate::executors::Reports;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use trainyard_core::attempt::{AttemptMessage, AttemptSpec, LogLevel};
use trainyard_engine::{Input, NodeId};

/// Receives the messages of an attempt.
pub(crate) struct Sink {
    context: RunContext,
    spec: Arc<AttemptSpec>,
    chunks: Arc<ChunkWriter>,
    /// Where the engine hears of waiting and of resume points.
    engine: Option<(UnboundedSender<Input>, NodeId)>,
}

impl Sink {
    /// A sink, and the task that empties it until [`Sink::close`].
    pub fn open(
        context: &RunContext,
        spec: &Arc<AttemptSpec>,
        engine: Option<(UnboundedSender<Input>, NodeId)>,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let observer = context.observer.clone();
        let trouble = move |text: &str| observer.note(text);
        let (chunks, emptying) = ChunkWriter::open(&context.store, spec, context.clock.clone(), trouble);
        (Arc::new(Self { context: context.clone(), spec: spec.clone(), chunks, engine }), emptying)
    }
    /// Puts what is left and ends the task.
    pub fn close(&self) {
        self.chunks.close();
    }

    fn tell(&self, input: impl FnOnce(NodeId) -> Input) {
        if let Some((happened, node)) = &self.engine {
            // Nobody listens any more only when the run is over.
            let _ = happened.send(input(*node));
        }
    }
}

impl Reports for Sink {
    fn message(&self, message: AttemptMessage) {
        self.chunks.message(&message);
        if let AttemptMessage::Checkpoint { step } = &message {
            self.tell(|node| Input::Saved { node, attempt: self.spec.attempt, step: *step });
        }
        self.context.observer.message(&self.spec.stage, self.spec.attempt, &message);
    }
    fn raw(&self, line: &str) {
        self.message(AttemptMessage::Log { level: LogLevel::Info, text: line.to_string() });
    }
    fn waits(&self, why: Option<&str>) {
        self.tell(|node| Input::Waits { node, attempt: self.spec.attempt, why: why.map(str::to_string) });
    }
}
