//! What goes into the engine and what comes out.

use crate::pool::{Grant, Outside};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use trainyard_core::attempt::{AttemptResult, AttemptSpec};
use trainyard_core::event::{AttemptOutcome, Record, RunOutcome};
use trainyard_core::{AttemptNumber, Digest, Error, Manifest, Output, Result};

/// A stage instance inside one engine; the order is that of the plan, instances of late fan-outs last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct NodeId(pub u32);

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// Once, before everything else.
    Begin,
    /// The store's answer to [`Command::Lookup`].
    Looked { node: NodeId, answer: Result<Looked> },
    /// The answer to [`Command::ReadRows`].
    Rows { node: NodeId, rows: Result<Vec<Value>> },
    /// A launched attempt waits for the machine, and why; without a reason it has what it waited for.
    Waits { node: NodeId, attempt: AttemptNumber, why: Option<String> },
    /// A launched attempt ended.
    Ended { node: NodeId, attempt: AttemptNumber, finished: Finished },
    /// The answer to [`Command::Recover`]; `None`: nothing of that attempt is left.
    Recovered { node: NodeId, attempt: AttemptNumber, finished: Option<Finished> },
    /// The answer to [`Command::Publish`].
    Published { node: NodeId, attempt: AttemptNumber, answer: Result<Publication> },
    /// What other runs hold of a machine from now on.
    Outside { pool: String, machine: String, held: Outside },
    /// Someone wants the run to stop; again: at once.
    Cancel { why: String },
    /// Time passed; see [`crate::Engine::next_wake`].
    Tick,
}

/// What the store has under a stage digest.
#[derive(Debug, Clone)]
pub enum Looked {
    /// The highest generation; every object of it exists with its size.
    Hit(Arc<Manifest>),
    Miss,
    /// The highest generation is not whole: an object of it is missing, or its manifest cannot be read.
    Lost {
        generation: u32,
        what: String,
    },
}

/// How an attempt ended.
#[derive(Debug, Clone)]
pub struct Finished {
    pub outcome: AttemptOutcome,
    /// Set if and only if it succeeded.
    pub result: Option<Arc<AttemptResult>>,
    /// Why, unless it succeeded.
    pub error: Option<Error>,
}

impl Finished {
    pub fn succeeded(result: AttemptResult) -> Self {
        Self { outcome: AttemptOutcome::Succeeded, result: Some(Arc::new(result)), error: None }
    }
    pub fn failed(outcome: AttemptOutcome, error: Error) -> Self {
        Self { outcome, result: None, error: Some(error) }
    }
}

/// What became of a publication.
#[derive(Debug, Clone)]
pub enum Publication {
    /// Our manifest stands.
    Ours,
    /// Another writer was first; this is its manifest.
    Theirs(Arc<Manifest>),
}

/// Something to do.
#[derive(Debug, Clone)]
pub enum Command {
    /// Read the manifest of the highest generation and see whether its objects exist.
    Lookup { node: NodeId, digest: Digest },
    /// Read at most `limit` rows of a table.
    ReadRows { node: NodeId, output: Box<Output>, limit: u64 },
    /// Run an attempt.
    Launch { node: NodeId, spec: Arc<AttemptSpec>, grant: Grant },
    /// Find an attempt that an earlier writer of this run left behind.
    Recover { node: NodeId, spec: Arc<AttemptSpec>, pool: String },
    /// Stop a running attempt; its end is still reported.
    Stop { node: NodeId, attempt: AttemptNumber, kill: bool },
    /// Put the manifest.
    Publish { node: NodeId, attempt: AttemptNumber, manifest: Box<Manifest> },
    /// The run is over: nothing runs any more, nothing more will be commanded.
    Finish { outcome: RunOutcome },
}

/// What one input led to. The commands may leave once the records are durable.
#[derive(Debug, Default)]
pub struct Step {
    pub records: Vec<Record>,
    pub commands: Vec<Command>,
}
