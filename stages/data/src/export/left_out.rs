//! What an export could not write.

use std::collections::BTreeMap;

/// What an export left out, by what it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeMap<&'static str, u64>);

impl LeftOut {
    /// Counts some things.
    pub fn add(&mut self, what: &'static str, count: usize) {
        if count > 0 {
            *self.0.entry(what).or_insert(0) += count as u64;
        }
    }
    /// What and how often, sorted.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(what, count)| (*what, *count))
    }
    /// How often.
    pub fn count(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }
}
