//! Defines the engine's inputs and outputs.

use crate::pool::{ExternalUsage, Grant};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use trainyard_core::attempt::{AttemptInput, AttemptResult, AttemptSpec};
use trainyard_core::event::{AttemptOutcome, EventRecord, RunOutcome};
use trainyard_core::{AttemptNumber, Digest, Error, Manifest, Output, Result};

/// A stage instance inside one engine; the order is that of the plan, instances of late fan-outs last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct NodeId(pub u32);

/// Event to which the engine reacts. `node` is the stage instance concerned, `attempt` the number of its attempt.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the variants' docs describe their fields")]
pub enum Input {
    /// The run begins: the first input, given once.
    Begin,
    /// The store's response to [`Command::Lookup`].
    LookedUp { node: NodeId, answer: Result<LookupResult> },
    /// The rows requested by [`Command::ReadRows`].
    Rows { node: NodeId, rows: Result<Vec<Value>> },
    /// The response to [`Command::Inspect`]: digest and generation of the manifests with a missing object.
    Inspected { node: NodeId, lost: Result<Vec<(Digest, u32)>> },
    /// An executor whose attempts outlive this engine took an attempt, or found it, under this name.
    Submitted { node: NodeId, attempt: AttemptNumber, handle: String },
    /// An attempt waits for a machine, with the reason; without a reason the wait is over.
    AttemptWaits { node: NodeId, attempt: AttemptNumber, why: Option<String> },
    /// An attempt stored the resume point of this step.
    CheckpointSaved { node: NodeId, attempt: AttemptNumber, step: u64 },
    /// A launched attempt yielded: another run computes the same stage.
    FoundElsewhere { node: NodeId, attempt: AttemptNumber },
    /// A launched attempt ended.
    Ended { node: NodeId, attempt: AttemptNumber, finished: AttemptCompletion },
    /// The response to [`Command::Recover`]: how the attempt ended, or `None` if no trace of it is left.
    Recovered { node: NodeId, attempt: AttemptNumber, finished: Option<AttemptCompletion> },
    /// The response to [`Command::Publish`].
    Published { node: NodeId, attempt: AttemptNumber, answer: Result<Publication> },
    /// Resources that other runs hold of a machine from now on.
    ExternalUsage { pool: String, machine: String, held: ExternalUsage },
    /// A request to stop the run. Given a second time, attempts are killed rather than requested to stop.
    Cancel { why: String },
    /// Time passed; see [`crate::RunEngine::next_wake`].
    Tick,
}

/// State of a stage digest in the store.
#[derive(Debug, Clone)]
pub enum LookupResult {
    /// The manifest of the highest generation; all its objects exist with their sizes.
    Hit(Arc<Manifest>),
    /// No manifest is published.
    Miss,
    /// The highest generation cannot be used: one of its objects is missing, its manifest cannot be read, or garbage
    /// collection has replaced its manifest by a tombstone.
    Lost {
        /// The unusable generation.
        generation: u32,
        /// Missing or unreadable object.
        missing: String,
    },
    /// No manifest is usable, and another run computes the stage; only in response to [`Command::Watch`].
    InOtherRun {
        /// Description of that run.
        why: String,
    },
}

/// End of an attempt.
#[derive(Debug, Clone)]
pub struct AttemptCompletion {
    /// The outcome for the journal.
    pub outcome: AttemptOutcome,
    /// Result, if and only if the attempt succeeded.
    pub result: Option<Arc<AttemptResult>>,
    /// Error of an attempt that did not succeed.
    pub error: Option<Error>,
}

impl AttemptCompletion {
    /// Creates the completion of a successful attempt.
    pub fn succeeded(result: AttemptResult) -> Self {
        Self { outcome: AttemptOutcome::Succeeded, result: Some(Arc::new(result)), error: None }
    }
    /// Creates the completion of an attempt with any other outcome.
    pub fn failed(outcome: AttemptOutcome, error: Error) -> Self {
        Self { outcome, result: None, error: Some(error) }
    }
}

/// Outcome of a publication.
#[derive(Debug, Clone)]
pub enum Publication {
    /// Our manifest is the published one.
    Ours,
    /// Another writer published first; this is its manifest.
    Theirs(Arc<Manifest>),
}

/// Action that the caller must carry out. `node` is the stage instance concerned.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the variants' docs describe their fields")]
pub enum Command {
    /// Read the manifest of the highest generation and check that its objects exist.
    Lookup { node: NodeId, digest: Digest },
    /// Read at most `limit` rows of a table.
    ReadRows { node: NodeId, output: Box<Output>, limit: u64 },
    /// Check that the objects read by a failed attempt still exist.
    Inspect { node: NodeId, inputs: Vec<AttemptInput> },
    /// Like [`Command::Lookup`]; if nothing is found, also report whether another run still computes this generation.
    Watch { node: NodeId, digest: Digest, generation: u32 },
    /// Run an attempt with the resources of its grant. `claim` is the generation that it makes, if it yields to
    /// another run that computes the same stage.
    Launch { node: NodeId, spec: Arc<AttemptSpec>, grant: Grant, claim: Option<u32> },
    /// Find an attempt that an earlier writer of this run left in a pool, by its handle if there is one in the journal,
    /// and follow it to its end.
    Recover { node: NodeId, spec: Arc<AttemptSpec>, pool: String, handle: Option<String> },
    /// Request a running attempt to stop, or kill it. Its end is still reported.
    Stop { node: NodeId, attempt: AttemptNumber, kill: bool },
    /// Put the manifest.
    Publish { node: NodeId, attempt: AttemptNumber, manifest: Arc<Manifest> },
    /// The run has ended: no attempt runs any more, and no command follows.
    Finish { outcome: RunOutcome },
}

/// Effects of one input. Carry out the commands once the records are durable.
#[derive(Debug, Default)]
pub struct EngineStep {
    /// Events for the journal, in order.
    pub records: Vec<EventRecord>,
    /// Commands, in order.
    pub commands: Vec<Command>,
}
