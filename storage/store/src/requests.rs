//! Answers of services that cost something, by the digest of their request: `requests/<aa>/<digest>.json`.
//!
//! A record is put create-only as soon as its answer came, so a process that dies later does not lose it, and of two
//! that ask the same at the same time both end with the same answer. No manifest names records: what a stage used of
//! them is among its outputs. Whoever removes the folder `requests` pays again, and loses nothing else.

use crate::connection::Created;
use crate::layout;
use crate::store::Store;
use bytes::Bytes;
use trainyard_core::{Digest, Result};

impl Store {
    /// Keeps the record of an answered request. Returns what stands there in the end: the record, or an earlier one.
    pub async fn keep_request(&self, request: &Digest, record: Bytes) -> Result<Bytes> {
        match self.create(&layout::request(request), record.clone()).await? {
            Created::Ours => Ok(record),
            Created::Theirs(earlier) => Ok(earlier),
        }
    }
    /// The record of a request; none if it was never answered.
    pub async fn request(&self, request: &Digest) -> Result<Option<Bytes>> {
        self.get(&layout::request(request)).await
    }
}
