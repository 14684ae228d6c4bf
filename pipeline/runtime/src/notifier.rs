//! Forwards messages of an attempt to the observer and the engine.

use crate::context::RunContext;
use crate::executors::{AttemptReporter, Handle};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use trainyard_core::attempt::{AttemptMessage, AttemptSpec, LogLevel};
use trainyard_engine::{Input, NodeId};

/// Forwards the messages of one attempt without storing them.
pub(crate) struct AttemptNotifier {
    pub context: RunContext,
    pub spec: Arc<AttemptSpec>,
    /// Sender of handles, waits and checkpoints to the engine, and the attempt's node; `None` if no engine listens.
    engine: Option<(UnboundedSender<Input>, NodeId)>,
}

impl AttemptNotifier {
    pub fn new(
        context: &RunContext,
        spec: &Arc<AttemptSpec>,
        engine: Option<(UnboundedSender<Input>, NodeId)>,
    ) -> Arc<Self> {
        Arc::new(Self { context: context.clone(), spec: spec.clone(), engine })
    }
    /// Reports the attempt's handle, by which the next engine finds it.
    pub fn submitted(&self, handle: &Handle) {
        self.send(|node| Input::Submitted { node, attempt: self.spec.attempt, handle: handle.0.clone() });
    }
    pub fn pass_on(&self, message: &AttemptMessage) {
        if let AttemptMessage::Checkpoint { step } = message {
            self.send(|node| Input::CheckpointSaved { node, attempt: self.spec.attempt, step: *step });
        }
        self.context.observer.message(&self.spec.stage, self.spec.attempt, message);
    }
    /// Tells the observer for what the attempt still waits.
    pub fn remind(&self, why: &str) {
        self.context.observer.waits(&self.spec.stage, why);
    }
    /// Forwards one line for users about the run.
    pub fn note(&self, text: &str) {
        self.context.observer.note(text);
    }

    fn send(&self, input: impl FnOnce(NodeId) -> Input) {
        if let Some((inputs, node)) = &self.engine {
            // Sending fails only when the run is over.
            let _ = inputs.send(input(*node));
        }
    }
}

impl AttemptReporter for AttemptNotifier {
    fn message(&self, message: AttemptMessage) {
        self.pass_on(&message);
    }
    fn raw(&self, line: &str) {
        self.pass_on(&AttemptMessage::Log { level: LogLevel::Info, text: line.to_string() });
    }
    fn waits(&self, why: Option<&str>) {
        self.send(|node| Input::AttemptWaits { node, attempt: self.spec.attempt, why: why.map(str::to_string) });
    }
}
