//! Defines the records of a schedule's log.
//!
//! The log is the source of truth of a schedule: every decision of every daemon, every pause and every backfill is a
//! create-only record under the next number. A process reads all earlier records before it decides, so of two daemons
//! that make the same decision, the slower one finds the record of the other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{Digest, RunId};
use trainyard_spec::Schedule;

/// A numbered record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleRecord {
    /// Time by the clock of the author, in Unix milliseconds.
    pub at: i64,
    /// Unique name of the author.
    pub by: String,
    /// Decision.
    #[serde(flatten)]
    pub event: ScheduleEvent,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ScheduleEvent {
    /// The schedule is new, or its file changed.
    Defined {
        /// Definition from now on.
        definition: Definition,
    },
    /// The file was removed; no tick fires any more.
    Removed {},
    /// No tick fires until the schedule is resumed.
    Paused {
        /// Reason given by the user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// Ticks fire again; those that came due meanwhile are not caught up.
    Resumed {},
    /// A run is promised for a tick.
    Fired {
        /// Tick.
        tick: Tick,
        /// Run of the tick.
        run: RunId,
        /// Number of earlier ticks that this one replaces.
        #[serde(default)]
        passed_over: u64,
        /// Backfill of the tick.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backfill: Option<String>,
        /// Listing of the watched files, if the tick was triggered by files: see [`ScheduleEvent::Listed`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        listing: Option<Digest>,
    },
    /// A user requested a run of a workflow file, which may have no schedule.
    Requested {
        /// Tick, named by hand.
        tick: Tick,
        /// Run of the request.
        run: RunId,
        /// File of the run.
        workflow: WorkflowFile,
        /// Arguments of `-p`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        params: Vec<String>,
    },
    /// Baseline of the watched files: from now on, all files that the listing does not contain are new.
    Listed {
        /// Digest of the stored listing.
        listing: Digest,
    },
    /// A tick is skipped.
    Skipped {
        /// Tick.
        tick: Tick,
        /// Reason.
        why: SkipReason,
        /// Number of earlier ticks skipped with it.
        #[serde(default)]
        passed_over: u64,
        /// Backfill of the tick.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backfill: Option<String>,
    },
    /// The run of a tick is over.
    Ended {
        /// Run id.
        run: RunId,
        /// Outcome of the run.
        outcome: TickOutcome,
        /// Reason why the run did not begin, or was given up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// A range of ticks is requested.
    BackfillRequested {
        /// Requested range.
        backfill: BackfillRequest,
    },
    /// A backfill starts no more ticks.
    BackfillCancelled {
        /// Backfill id.
        id: String,
    },
    /// A record of a later version.
    #[serde(other)]
    Unknown,
}

/// Definition of a schedule: the key `schedule` of a file, and the texts that it was read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Definition {
    /// Times and triggers of its runs.
    pub schedule: Schedule,
    /// Workflow file; relative to the daemon's folder if inside of it.
    pub file: String,
    /// Host and folder of the daemon that read the file. If the file is removed there, the schedule ends.
    pub home: String,
    /// Digest of the texts of the file, its parents and embedded files at that time. Runs read these texts.
    #[schemars(with = "String")]
    pub texts: Digest,
}

/// Workflow file of a run, and the texts that it was compiled from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowFile {
    /// Workflow file; relative to the daemon's folder if inside of it.
    pub file: String,
    /// Host and folder of the daemon that read the file.
    pub home: String,
    /// Digest of the texts of the file, its parents and embedded files at that time.
    #[schemars(with = "String")]
    pub texts: Digest,
}

impl From<&Definition> for WorkflowFile {
    fn from(definition: &Definition) -> Self {
        let Definition { file, home, texts, .. } = definition.clone();
        Self { file, home, texts }
    }
}

/// Tick: the reason to start a run, at most once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Tick {
    /// Time in Unix milliseconds.
    pub at: i64,
    /// Tick name: the time in RFC 3339, followed by the mark of the trigger if it is not a tick of the clock.
    pub id: String,
}

/// Reason for skipping a tick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// Another run of the schedule was in progress.
    Overlap,
    /// No daemon detected the tick in time.
    Missed,
    /// Too many ticks are waiting already.
    Full,
    /// A backfill found that the tick already had a run.
    Done,
}

/// Outcome of a tick's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TickOutcome {
    /// All selected stages succeeded.
    Succeeded,
    /// A stage failed.
    Failed,
    /// The run was canceled.
    Cancelled,
    /// The run never began.
    NotStarted,
    /// A newer tick replaced it before it began.
    Superseded,
}

/// Requested range of ticks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackfillRequest {
    /// Id, unique among the schedule's backfills.
    pub id: String,
    /// Earliest tick, in Unix milliseconds.
    pub from: i64,
    /// Latest tick, in Unix milliseconds.
    pub to: i64,
    /// Maximum concurrent runs; they do not count as runs of the schedule itself.
    pub concurrency: u32,
    /// Whether ticks that had a run are run again.
    pub again: bool,
}

impl Tick {
    /// Returns a tick of the clock.
    pub fn scheduled(at: i64) -> Self {
        Self { at, id: time(at) }
    }
    /// Returns a tick of a trigger: `what` identifies it among all triggers.
    pub fn from_trigger(at: i64, what: &str) -> Self {
        Self { at, id: format!("on:{what}") }
    }
    /// Returns a tick requested by a user.
    pub fn manual(at: i64, mark: u32) -> Self {
        Self { at, id: format!("{}:by-hand-{mark:08x}", time(at)) }
    }
    /// Returns the time in RFC 3339: the value of a param `tick`.
    pub fn time(&self) -> String {
        time(self.at)
    }
}

/// Formats RFC 3339 in UTC, with a fraction of the second only if it is not zero.
pub fn time(unix_millis: i64) -> String {
    jiff::Timestamp::from_millisecond(unix_millis).map_or_else(|_| unix_millis.to_string(), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_named_by_their_time() {
        assert_eq!(Tick::scheduled(1_795_234_530_000).id, "2026-11-21T04:15:30Z");
        assert_eq!(Tick::from_trigger(0, "ab").id, "on:ab");
        assert_eq!(Tick::manual(1_795_234_530_042, 7).id, "2026-11-21T04:15:30.042Z:by-hand-00000007");
    }

    #[test]
    fn records_of_later_versions_are_skipped() {
        let record: ScheduleRecord = serde_json::from_str(r#"{"at":1,"by":"x","type":"renamed","to":"y"}"#).unwrap();
        assert_eq!(record.event, ScheduleEvent::Unknown);
    }
}
