//! Counts the fields that an export leaves out.

use std::collections::BTreeMap;

/// Counts of the fields that an export left out, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportOmissions(BTreeMap<&'static str, u64>);

impl ExportOmissions {
    /// Adds to the count of a kind.
    pub fn add(&mut self, kind: &'static str, count: usize) {
        if count > 0 {
            *self.0.entry(kind).or_insert(0) += count as u64;
        }
    }
    /// Returns kinds and counts, sorted.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(kind, count)| (*kind, *count))
    }
    /// Returns the count of a kind.
    pub fn count(&self, kind: &str) -> u64 {
        self.0.get(kind).copied().unwrap_or(0)
    }
}
