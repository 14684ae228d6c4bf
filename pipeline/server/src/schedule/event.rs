//! What the log of a schedule holds.
//!
//! The log is the truth about a schedule: every decision of every daemon, pause and backfill is a record under the next
//! number, put create-only. Whoever wants to decide has read all records before, so of two daemons that decide the same
//! thing one finds the other's record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{Digest, RunId};
use trainyard_spec::Schedule;

/// A numbered record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Time by the clock of whoever decided it, in Unix milliseconds.
    pub at: i64,
    /// Unique name of who decided it.
    pub by: String,
    /// What was decided.
    #[serde(flatten)]
    pub event: Event,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The schedule is new, or its file changed.
    Defined {
        /// What it is from now on.
        definition: Definition,
    },
    /// Its file is gone; nothing fires any more.
    Removed {},
    /// Nothing fires until it is resumed.
    Paused {
        /// What the user said about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// Ticks fire again; those that passed meanwhile are not made up for.
    Resumed {},
    /// A run is promised for a tick.
    Fired {
        /// The tick.
        tick: Tick,
        /// The run that belongs to it.
        run: RunId,
        /// How many earlier ticks it stands for.
        #[serde(default)]
        passed_over: u64,
        /// The backfill that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backfill: Option<String>,
        /// What lies where files are to appear, if the tick is for files: see [`Event::Listed`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        listing: Option<Digest>,
    },
    /// What lies where files are to appear: from now on all others are new.
    Listed {
        /// Digest of the stored listing.
        listing: Digest,
    },
    /// A tick passes without a run.
    Skipped {
        /// The tick.
        tick: Tick,
        /// Why.
        why: Skip,
        /// How many ticks before it passed with it.
        #[serde(default)]
        passed_over: u64,
        /// The backfill that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backfill: Option<String>,
    },
    /// The run of a tick is over.
    Ended {
        /// The run.
        run: RunId,
        /// How it ended.
        outcome: Outcome,
        /// Why it did not begin, or was given up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// A range of ticks is to be run.
    BackfillRequested {
        /// The backfill.
        backfill: BackfillRequest,
    },
    /// A backfill starts no more ticks.
    BackfillCancelled {
        /// Its id.
        id: String,
    },
    /// A record of a later version.
    #[serde(other)]
    Unknown,
}

/// What a schedule is: the key `schedule` of a file, and the texts that it was read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Definition {
    /// When its runs start.
    pub schedule: Schedule,
    /// The workflow file; relative to the daemon's folder if it lies in it.
    pub file: String,
    /// Host and folder of the daemon that read it. If the file is gone there, the schedule ends.
    pub home: String,
    /// Digest of the texts of the file, its parents and the files that it embeds, as they were. A run reads these.
    #[schemars(with = "String")]
    pub texts: Digest,
}

/// A tick: what a run is started for, at most once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Tick {
    /// Its time in Unix milliseconds.
    pub at: i64,
    /// Its name: the time in RFC 3339, with what appeared behind it if it is not a tick of the clock.
    pub id: String,
}

/// Why a tick passed without a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Skip {
    /// Another run of the schedule was going.
    Overlap,
    /// Nothing was there to see it in time.
    Missed,
    /// Too many ticks wait already.
    Full,
    /// A backfill found that the tick had its run.
    Done,
}

/// How the run of a tick ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every stage that was to run succeeded.
    Succeeded,
    /// A stage failed.
    Failed,
    /// It was asked to stop.
    Cancelled,
    /// It never began.
    NotStarted,
    /// A newer tick took its place before it began.
    Superseded,
}

/// A range of ticks that are to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackfillRequest {
    /// Unique among the schedule's backfills.
    pub id: String,
    /// The first tick is not before this; Unix milliseconds.
    pub from: i64,
    /// The last tick is not after this; Unix milliseconds.
    pub to: i64,
    /// Runs at the same time; they do not count as runs of the schedule itself.
    pub concurrency: u32,
    /// Whether ticks that had a run are run again.
    pub again: bool,
}

impl Tick {
    /// A tick of the clock.
    pub fn of_clock(at: i64) -> Self {
        Self { at, id: time(at) }
    }
    /// A tick for something that appeared: `what` tells it from anything else that appears.
    pub fn of_thing(at: i64, what: &str) -> Self {
        Self { at, id: format!("on:{what}") }
    }
    /// A tick that somebody asked for.
    pub fn by_hand(at: i64, mark: u32) -> Self {
        Self { at, id: format!("{}:by-hand-{mark:08x}", time(at)) }
    }
    /// Its time in RFC 3339: what a param `tick` gets.
    pub fn time(&self) -> String {
        time(self.at)
    }
}

/// RFC 3339 in UTC, with a fraction of the second only if there is one.
pub fn time(unix_millis: i64) -> String {
    jiff::Timestamp::from_millisecond(unix_millis).map_or_else(|_| unix_millis.to_string(), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_named_by_their_time() {
        assert_eq!(Tick::of_clock(1_795_234_530_000).id, "2026-11-21T04:15:30Z");
        assert_eq!(Tick::of_thing(0, "ab").id, "on:ab");
        assert_eq!(Tick::by_hand(1_795_234_530_042, 7).id, "2026-11-21T04:15:30.042Z:by-hand-00000007");
    }

    #[test]
    fn records_of_later_versions_are_skipped() {
        let record: Record = serde_json::from_str(r#"{"at":1,"by":"x","type":"renamed","to":"y"}"#).unwrap();
        assert_eq!(record.event, Event::Unknown);
    }
}
