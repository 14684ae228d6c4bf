//! The trait of trackers, and the events that they receive.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio::runtime::Handle;
use trainyard_core::event::EventRecord;
use trainyard_core::{AttemptNumber, Digest, Result, RunId, StageKey};
use trainyard_store::Store;

/// Follows one run. All calls come from one thread, in chronological order.
pub trait Tracker: Send {
    /// Takes the events since the last call, at least one. Errors: the events were not taken, and are not sent again.
    fn take(&mut self, events: &[&TrackerEvent]) -> Result<()>;
}

/// Events that trackers receive.
#[derive(Debug, Clone, PartialEq)]
pub enum TrackerEvent {
    /// A writer opened the run. It is the first event.
    Opened(RunStart),
    /// An entry of the journal.
    Event(EventRecord),
    /// A point of a learning curve.
    Point(Point),
}

/// A run that a writer opened, for the first time or to resume it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunStart {
    pub run: RunId,
    /// Workflow name.
    pub workflow: String,
    /// Parameters after defaults.
    pub params: BTreeMap<String, Value>,
    /// Whether another writer had the run before.
    pub resumed: bool,
    /// Milliseconds since 1970-01-01 UTC.
    pub at: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub stage: StageKey,
    /// Attempt that reported the point. An attempt resumed from a checkpoint repeats the steps after it.
    pub attempt: AttemptNumber,
    /// Metric name.
    pub name: String,
    /// Step, as the stage counts them.
    pub step: u64,
    /// Value; may be infinite or NaN.
    pub value: f64,
    /// Time of receipt in milliseconds since 1970-01-01 UTC.
    pub at: i64,
}

/// Dependencies of trackers.
pub struct TrackerContext {
    /// Store of the run, for trackers that look up manifests.
    pub store: Store,
    /// Runtime of store requests.
    pub handle: Handle,
    /// Folder that relative paths of options begin at: that of the site file.
    pub folder: PathBuf,
}

/// Returns an id for a run or a part of one in other programs: the first bytes of the digest of its names.
pub(super) fn identifier(names: &[&str]) -> String {
    Digest::of(names.join("\n").as_bytes()).to_string()
}

/// Formats a time as RFC 3339, in UTC.
pub(super) fn timestamp(unix_millis: i64) -> String {
    jiff::Timestamp::from_millisecond(unix_millis).unwrap_or_default().to_string()
}
