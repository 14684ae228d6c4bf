//! Stores responses of paid services under the digest of their request: `requests/<aa>/<digest>.json`.
//!
//! A record is put create-only as soon as its response arrives. A process that dies later therefore loses no response,
//! and two concurrent equal requests end with the same one. Manifests do not name records, because a stage's outputs
//! contain everything that the stage used of its responses. If a user removes the folder `requests`, the only effect is
//! that equal requests are paid for again.

use crate::connection::CreateOutcome;
use crate::layout;
use crate::store::Store;
use bytes::Bytes;
use trainyard_core::{Digest, Result};

impl Store {
    /// Stores the record of a completed request. Returns the record in the store: this or an earlier one.
    pub async fn keep_request(&self, request: &Digest, record: Bytes) -> Result<Bytes> {
        match self.create(&layout::request(request), record.clone()).await? {
            CreateOutcome::Ours => Ok(record),
            CreateOutcome::Theirs(earlier) => Ok(earlier),
        }
    }
    /// Returns the record of a request; `None` if it was never completed.
    pub async fn request(&self, request: &Digest) -> Result<Option<Bytes>> {
        self.get(&layout::request(request)).await
    }
}
