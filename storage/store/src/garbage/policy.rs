//! Holds the policy of a collection: which data may be removed, and from which age on.

use std::time::Duration;

/// Age from which on storing an object's bytes again rewrites the object. The rewrite renews the object's age, so the
/// object stays until the attempt that stored it has published.
pub const RENEWED: Duration = Duration::from_secs(15 * 60);

/// Policy of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GarbagePolicy {
    /// Minimum age of removed data. It must be longer than the time from the first output that an attempt stores to its
    /// `result.json`, plus [`RENEWED`], and longer than a writer may delay an event during an outage of the store.
    pub older_than: Duration,
    /// Number of manifests kept for each stage of each workflow, most recently used by a run first. `None` keeps all.
    pub keep_last: Option<usize>,
    /// Age of the last file from which on finished runs are removed with journal, attempts and logs, and of checkpoints
    /// of stages that were never finished. `None` keeps all.
    pub runs_older_than: Option<Duration>,
}

impl Default for GarbagePolicy {
    /// Returns a policy with a minimum age of one day that keeps all manifests and runs.
    fn default() -> Self {
        Self { older_than: Duration::from_secs(24 * 3_600), keep_last: None, runs_older_than: None }
    }
}

impl From<Duration> for GarbagePolicy {
    /// Returns a policy with this minimum age that keeps all manifests and runs.
    fn from(older_than: Duration) -> Self {
        Self { older_than, ..Self::default() }
    }
}

/// Whether data of time `modified` is at least `age` old at time `now`. Both times are Unix milliseconds of one clock.
pub(super) fn is_old(now: i64, modified: i64, age: Duration) -> bool {
    now.saturating_sub(modified) >= i64::try_from(age.as_millis()).unwrap_or(i64::MAX)
}
