//! What happened in a simulation, in order: its digest is the proof that a seed repeats itself, its lines are what one
//! reads when a seed fails, and its counts say that it was no idle play.

use super::process::Time;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use trainyard_core::Digest;
use trainyard_core::digest::Hasher;

/// Print what happens.
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
    /// Something happened to somebody.
    pub fn tell(&self, who: impl fmt::Display, what: impl fmt::Display) {
        let line = format!("{:>9} {who} {what}\n", self.time.now().as_millis());
        self.hasher.lock().unwrap().update(line.as_bytes());
        if self.prints {
            print!("{line}");
        }
    }
    /// Counts something worth a figure.
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
