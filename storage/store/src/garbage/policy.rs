//! What a collection may take away, and from which age on.

use std::time::Duration;

/// The age of an object from which on storing its bytes again writes it anew. So an attempt that comes to bytes which
/// are there already makes them young, and they stay until it has published.
pub const RENEWED: Duration = Duration::from_secs(15 * 60);

/// What a collection may take away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Nothing younger goes. It must be longer than what lies between the first output that an attempt stores and its
    /// `result.json`, plus [`RENEWED`]; and longer than a writer may hold back an event for a store that is away.
    pub older_than: Duration,
    /// Of each stage of each workflow, this many manifests stay: those that a run used last. None: all stay.
    pub keep_last: Option<usize>,
    /// Finished runs whose last file is older go with journal, attempts and logs, and so do older resume points of
    /// stages that were never finished. None: all stay.
    pub runs_older_than: Option<Duration>,
}

impl Default for Policy {
    /// A day; manifests and runs stay.
    fn default() -> Self {
        Self { older_than: Duration::from_secs(24 * 3_600), keep_last: None, runs_older_than: None }
    }
}

impl From<Duration> for Policy {
    /// Manifests and runs stay.
    fn from(older_than: Duration) -> Self {
        Self { older_than, ..Self::default() }
    }
}

/// Whether something of this time is at least this old; both times in Unix milliseconds of one clock.
pub(super) fn is_old(now: i64, modified: i64, age: Duration) -> bool {
    now.saturating_sub(modified) >= i64::try_from(age.as_millis()).unwrap_or(i64::MAX)
}
