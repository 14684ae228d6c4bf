//! Defines the cache of responses of paid services, by the digest of their request.
//!
//! Responses belong to the store, not to a stage: the same request in any attempt, stage or run returns the stored
//! response.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trainyard_core::{Digest, Result};

/// Stored responses of services, by the digest of the request.
pub trait RequestCache: Send + Sync {
    /// Returns the records of requests, in the same order; `None` for a request without a record.
    fn find(&self, requests: &[Digest]) -> Result<Vec<Option<Vec<u8>>>>;
    /// Stores records and returns when they are durable. The first record of a request is kept; returns the kept
    /// records, in the order of the arguments.
    fn keep(&self, records: Vec<(Digest, Vec<u8>)>) -> Result<Vec<Vec<u8>>>;
}

/// Records in memory, lost on drop: for tests, and for contexts without a store.
#[derive(Default)]
pub struct RequestsInMemory(Mutex<BTreeMap<Digest, Vec<u8>>>);

impl RequestsInMemory {
    /// Returns the number of records.
    pub fn count(&self) -> usize {
        self.lock().len()
    }
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Digest, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestCache for RequestsInMemory {
    fn find(&self, requests: &[Digest]) -> Result<Vec<Option<Vec<u8>>>> {
        let stored = self.lock();
        Ok(requests.iter().map(|request| stored.get(request).cloned()).collect())
    }
    fn keep(&self, records: Vec<(Digest, Vec<u8>)>) -> Result<Vec<Vec<u8>>> {
        let mut stored = self.lock();
        Ok(records.into_iter().map(|(request, record)| stored.entry(request).or_insert(record).clone()).collect())
    }
}
