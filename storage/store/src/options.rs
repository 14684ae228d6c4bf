//! How a store is opened.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Chance, Clock, SystemClock};

/// What to do if the store's folder does not exist. It does not apply to buckets, where an empty prefix is an empty
/// store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// Make it. Fails if the store is opened read-only.
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
    /// Refuse every put, and skip the probe.
    pub read_only: bool,
    /// Prove at opening that puts are create-only. Only a process whose parent has proved it for the same store may
    /// skip this.
    pub probe: bool,
    /// Local stores: what to do if the folder does not exist.
    pub missing: Missing,
    /// How long requests that fail for a passing reason are repeated, once the store is open. Zero, the default, is for
    /// commands that people wait for: a few tries within seconds.
    pub outage: Duration,
    /// Names the probe, measures outages, and tells the age of garbage.
    pub clock: Arc<dyn Clock>,
    /// Makes the name of the probe unique.
    pub chance: Chance,
}

impl Default for StoreOptions {
    /// No flush, writable, probed, made if it is missing, impatient, with the machine's clock. The seed comes from the
    /// machine too, since the probe's name must differ from that of any process on any host; no output depends on it.
    fn default() -> Self {
        let seed = RandomState::new().build_hasher().finish();
        Self {
            durability_fsync: false,
            read_only: false,
            probe: true,
            missing: Missing::Make,
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
