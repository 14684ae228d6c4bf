//! Records the events of a simulation in order. Their digest shows that a seed is reproducible, their lines help to
//! debug a failing seed, and their counts show that the simulation was not idle.

use super::process::Time;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use trainyard_core::Digest;
use trainyard_core::digest::Hasher;

/// Environment variable that enables printing of events.
const VARIABLE: &str = "TRAINYARD_SIMULATION_TRACE";

pub struct Trace {
    time: Time,
    hasher: Mutex<Hasher>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    prints: bool,
}

impl Trace {
    pub fn new(time: Time) -> Self {
        let prints = std::env::var_os(VARIABLE).is_some();
        Self { time, hasher: Mutex::new(Hasher::new()), counts: Mutex::default(), prints }
    }
    /// Records an event of `who`.
    pub fn record(&self, who: impl fmt::Display, what: impl fmt::Display) {
        let line = format!("{:>9} {who} {what}\n", self.time.now().as_millis());
        self.hasher.lock().unwrap().update(line.as_bytes());
        if self.prints {
            print!("{line}");
        }
    }
    /// Counts an event for the statistics.
    pub fn count(&self, what: &'static str) {
        *self.counts.lock().unwrap().entry(what).or_default() += 1;
    }
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.lock().unwrap().clone()
    }
    pub fn digest(&self) -> Digest {
        self.hasher.lock().unwrap().clone().finish()
    }
}
