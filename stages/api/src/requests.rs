//! Answers of services that cost something, kept by what was asked.
//!
//! They belong to the store and to no stage: who asks the same again, in any attempt, stage or run, finds them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trainyard_core::{Digest, Result};

/// Records of answered requests by the digest of the request.
pub trait RequestCache: Send + Sync {
    /// What is kept of each request, in their order; none for one that was never answered.
    fn find(&self, requests: &[Digest]) -> Result<Vec<Option<Vec<u8>>>>;
    /// Keeps records and returns when they are durable. Of two records of one request the first stays; what stands
    /// there in the end comes back, in the order of the records.
    fn keep(&self, records: Vec<(Digest, Vec<u8>)>) -> Result<Vec<Vec<u8>>>;
}

/// Keeps records as long as it lives: for tests, and where there is no store.
#[derive(Default)]
pub struct RequestsInMemory(Mutex<BTreeMap<Digest, Vec<u8>>>);

impl RequestsInMemory {
    /// Number of records.
    pub fn count(&self) -> usize {
        self.kept().len()
    }
    fn kept(&self) -> MutexGuard<'_, BTreeMap<Digest, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestCache for RequestsInMemory {
    fn find(&self, requests: &[Digest]) -> Result<Vec<Option<Vec<u8>>>> {
        let kept = self.kept();
        Ok(requests.iter().map(|request| kept.get(request).cloned()).collect())
    }
    fn keep(&self, records: Vec<(Digest, Vec<u8>)>) -> Result<Vec<Vec<u8>>> {
        let mut kept = self.kept();
        Ok(records.into_iter().map(|(request, record)| kept.entry(request).or_insert(record).clone()).collect())
    }
}
