//! How a store is opened.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use trainyard_core::{Chance, Clock, SystemClock};

/// What opening does about a folder that does not exist. A bucket is not asked: there, an empty prefix is an empty store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// Makes it; refuses if the store is opened read-only.
    #[default]
    Make,
    Refuse,
    /// Takes it for an empty store if the store is opened read-only, else refuses; makes nothing.
    Empty,
}

/// Options of [`crate::Store::open`].
#[derive(Clone)]
pub struct StoreOptions {
    /// Local stores: flush files and folders to the disk before a put returns (the site file's `durability: fsync`).
    pub durability_fsync: bool,
    /// Refuses every put; opens without the probe.
    pub read_only: bool,
    /// Proves at opening that the store is create-only. Only a process whose parent proved it on the same store may leave it out.
    pub probe: bool,
    /// Local stores: what to do if the folder does not exist.
    pub missing: Missing,
    /// Names the probe and dates garbage.
    pub clock: Arc<dyn Clock>,
    /// Makes the probe's name fresh.
    pub chance: Chance,
}

impl Default for StoreOptions {
    /// No flush, writable, probed, made if it is missing; the machine's clock, and a seed of the machine's, since a probe's name must differ from that
    /// of any other process on any host. No output depends on it.
    fn default() -> Self {
        let seed = RandomState::new().build_hasher().finish();
        Self {
            durability_fsync: false,
            read_only: false,
            probe: true,
            missing: Missing::Make,
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
            .finish_non_exhaustive()
    }
}
