//! What an attempt says, on its way to the observer and the engine.

use crate::context::RunContext;
use crate::executors::{Handle, Reports};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use trainyard_core::attempt::{AttemptMessage, AttemptSpec, LogLevel};
use trainyard_engine::{Input, NodeId};

/// Passes on the news of one attempt. It stores nothing.
pub(crate) struct News {
    pub context: RunContext,
    pub spec: Arc<AttemptSpec>,
    /// Where the engine hears of handles, of waiting and of resume points.
    engine: Option<(UnboundedSender<Input>, NodeId)>,
}

impl News {
    pub fn new(
        context: &RunContext,
        spec: &Arc<AttemptSpec>,
        engine: Option<(UnboundedSender<Input>, NodeId)>,
    ) -> Arc<Self> {
        Arc::new(Self { context: context.clone(), spec: spec.clone(), engine })
    }
    /// The attempt has this handle, by which the next engine finds it.
    pub fn submitted(&self, handle: &Handle) {
        self.tell(|node| Input::Submitted { node, attempt: self.spec.attempt, handle: handle.0.clone() });
    }
    /// Passes a message on.
    pub fn pass_on(&self, message: &AttemptMessage) {
        if let AttemptMessage::Checkpoint { step } = message {
            self.tell(|node| Input::Saved { node, attempt: self.spec.attempt, step: *step });
        }
        self.context.observer.message(&self.spec.stage, self.spec.attempt, message);
    }
    /// One line for people about the run as a whole.
    pub fn note(&self, text: &str) {
        self.context.observer.note(text);
    }

    fn tell(&self, input: impl FnOnce(NodeId) -> Input) {
        if let Some((happened, node)) = &self.engine {
            // Nobody listens any more only when the run is over.
            let _ = happened.send(input(*node));
        }
    }
}

impl Reports for News {
    fn message(&self, message: AttemptMessage) {
        self.pass_on(&message);
    }
    fn raw(&self, line: &str) {
        self.pass_on(&AttemptMessage::Log { level: LogLevel::Info, text: line.to_string() });
    }
    fn waits(&self, why: Option<&str>) {
        self.tell(|node| Input::Waits { node, attempt: self.spec.attempt, why: why.map(str::to_string) });
    }
}
