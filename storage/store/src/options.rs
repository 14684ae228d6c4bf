//! Holds the options with which a store is opened.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Chance, Clock, SystemClock};

/// Handling of a missing store folder. It does not apply to buckets, where an empty prefix is an empty store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingFolder {
    /// Create it. Fails if the store is opened read-only.
    #[default]
    Make,
    /// Fail.
    Refuse,
    /// Treat it as an empty store if opened read-only, and fail otherwise.
    Empty,
}

/// Options of [`crate::Store::open`].
#[derive(Clone)]
pub struct StoreOptions {
    /// Local stores: flush files and folders to the disk before a put returns (the site file's `durability: fsync`).
    pub durability_fsync: bool,
    /// Reject every put, and skip the probe.
    pub read_only: bool,
    /// Verify at opening that puts are create-only. Only a process whose parent has verified the same store may skip
    /// this.
    pub probe: bool,
    /// Local stores: handling of a missing folder.
    pub missing: MissingFolder,
    /// Time for which requests with a transient error are retried, once the store is open. Zero, the default, is for
    /// interactive commands: a few attempts within seconds.
    pub outage: Duration,
    /// Clock that names the probe and measures outages and the age of garbage.
    pub clock: Arc<dyn Clock>,
    /// Source of randomness for unique probe names.
    pub chance: Chance,
}

impl Default for StoreOptions {
    /// Returns options without flush, writable, probed, with a missing folder created, with an outage limit of zero,
    /// and with the machine's clock. The seed comes from the machine too, since the probe's name must differ from that
    /// of any process on any host; no output depends on it.
    fn default() -> Self {
        let seed = RandomState::new().build_hasher().finish();
        Self {
            durability_fsync: false,
            read_only: false,
            probe: true,
            missing: MissingFolder::Make,
            outage: Duration::ZERO,
            clock: Arc::new(SystemClock::new()),
            chance: Chance::new(seed),
        }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("durability_fsync", &self.durability_fsync)
            .field("read_only", &self.read_only)
            .field("probe", &self.probe)
            .field("missing", &self.missing)
            .field("outage", &self.outage)
            .finish_non_exhaustive()
    }
}
