//! Defines the trait of trackers, and the events that they receive.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio::runtime::Handle;
use trainyard_core::event::EventRecord;
use trainyard_core::{AttemptNumber, Digest, Result, RunId, StageKey};
use trainyard_store::Store;

/// Receiver of the events of one run. All calls come from one thread, in chronological order.
pub trait Tracker: Send {
    /// Takes the events since the last call, of which there is at least one. Errors: the events were not taken; they
    /// are not sent again.
    fn take(&mut self, events: &[&TrackerEvent]) -> Result<()>;
}

/// Event of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum TrackerEvent {
    /// A writer opened the run. It is the first event.
    Opened(RunStart),
    /// An entry of the journal.
    Event(EventRecord),
    /// A point of a learning curve.
    Point(Point),
}

/// Opening of a run by a writer, at its start or to resume it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunStart {
    pub run: RunId,
    /// Workflow name.
    pub workflow: String,
    /// Parameters after defaults.
    pub params: BTreeMap<String, Value>,
    /// Whether another writer had opened the run before.
    pub resumed: bool,
    /// Milliseconds since 1970-01-01 UTC.
    pub at: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub stage: StageKey,
    /// Attempt that reported the point. An attempt that resumes from a checkpoint repeats the steps after it.
    pub attempt: AttemptNumber,
    /// Metric name.
    pub name: String,
    /// Step, as counted by the stage.
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
    /// Folder of the site file, to which paths in options are relative.
    pub folder: PathBuf,
}

/// Returns an id, for other programs, of a run or a part of a run: the digest of its names.
pub(super) fn identifier(names: &[&str]) -> String {
    Digest::of(names.join("\n").as_bytes()).to_string()
}

/// Formats a time as RFC 3339, in UTC.
pub(super) fn timestamp(unix_millis: i64) -> String {
    jiff::Timestamp::from_millisecond(unix_millis).unwrap_or_default().to_string()
}
