//! The trait of trackers, and what they are told.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio::runtime::Handle;
use trainyard_core::event::Record;
use trainyard_core::{AttemptNumber, Digest, Result, RunId, StageKey};
use trainyard_store::Store;

/// Follows one run. All calls come from one thread, in the order in which things happened.
pub trait Tracker: Send {
    /// Takes what happened since the last call; never empty. Errors: it was not taken, and is not told again.
    fn take(&mut self, seen: &[&Seen]) -> Result<()>;
}

/// What trackers are told.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// A writer opened the run. It comes first.
    Opened(Opened),
    /// Something was journaled.
    Event(Record),
    /// A point of a learning curve.
    Point(Point),
}

/// A run that a writer opened: its first one, or one that goes on with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// The run.
    pub run: RunId,
    /// Its workflow.
    pub workflow: String,
    /// Parameters after defaults.
    pub params: BTreeMap<String, Value>,
    /// Whether another writer had it before.
    pub resumed: bool,
    /// Milliseconds since 1970-01-01 UTC.
    pub at: i64,
}

/// A point of a learning curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Whose it is.
    pub stage: StageKey,
    /// The attempt that reported it. One that goes on from a resume point repeats the steps behind that.
    pub attempt: AttemptNumber,
    /// The metric.
    pub name: String,
    /// Steps of the stage, from its own count.
    pub step: u64,
    /// The value; may be no finite number.
    pub value: f64,
    /// When it was heard of, in milliseconds since 1970-01-01 UTC.
    pub at: i64,
}

/// What trackers are built with.
pub struct Around {
    /// The store of the run, for trackers that look up manifests.
    pub store: Store,
    /// Where to wait for the store.
    pub handle: Handle,
    /// Folder that relative paths of options begin at: that of the site file.
    pub folder: PathBuf,
}

/// A name of a run or of a part of one that other programs take: the first bytes of the digest of its own names.
pub(super) fn identifier(names: &[&str]) -> String {
    Digest::of(names.join("\n").as_bytes()).to_string()
}

/// A time as RFC 3339 writes it, in UTC.
pub(super) fn timestamp(unix_millis: i64) -> String {
    jiff::Timestamp::from_millisecond(unix_millis).unwrap_or_default().to_string()
}
