//! How a store is opened.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use trainyard_core::{Chance, Clock, SystemClock};

/// Options of [`crate::Store::open`].
#[derive(Clone)]
pub struct StoreOptions {
    /// Local stores: flush files and folders to the disk before a put returns (the site file's `durability: fsync`).
    pub durability_fsync: bool,
    /// Refuses every put; opens without the probe.
    pub read_only: bool,
    /// Proves at opening that the store is create-only. Only a process whose parent proved it on the same store may leave it out.
    pub probe: bool,
    /// Names the probe and dates garbage.
    pub clock: Arc<dyn Clock>,
    /// Makes the probe's name fresh.
    pub chance: Chance,
}

impl Default for StoreOptions {
    /// No flush, writable, probed; the machine's clock, and a seed of the machine's, since a probe's name must differ from that
    /// of any other process on any host. No output depends on it.
    fn default() -> Self {
        let seed = RandomState::new().build_hasher().finish();
        Self { durability_fsync: false, read_only: false, probe: true, clock: Arc::new(SystemClock::new()), chance: Chance::new(seed) }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("durability_fsync", &self.durability_fsync)
            .field("read_only", &self.read_only)
            .field("probe", &self.probe)
            .finish_non_exhaustive()
    }
}
