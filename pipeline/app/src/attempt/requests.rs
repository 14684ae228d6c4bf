//! Caches responses of services in the store, where every stage of every run can find them.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::runtime::Handle;
use trainyard_api::RequestCache;
use trainyard_core::{Digest, Result};
use trainyard_store::Store;

/// Maximum records that are read or stored concurrently.
const AT_ONCE: usize = 32;

pub struct StoredRequests {
    store: Store,
    handle: Handle,
}

impl StoredRequests {
    /// Creates a cache in `store`, whose requests run on `handle`.
    pub fn new(store: Store, handle: Handle) -> Self {
        Self { store, handle }
    }
}

impl RequestCache for StoredRequests {
    fn find(&self, requests: &[Digest]) -> Result<Vec<Option<Vec<u8>>>> {
        let one = |request: Digest| async move { Ok(self.store.request(&request).await?.map(Into::into)) };
        self.handle.block_on(stream::iter(requests.to_vec()).map(one).buffered(AT_ONCE).try_collect())
    }
    fn keep(&self, records: Vec<(Digest, Vec<u8>)>) -> Result<Vec<Vec<u8>>> {
        // A trial may read a store that it must not change. The responses are then not cached and are paid for again.
        if self.store.options().read_only {
            return Ok(records.into_iter().map(|(_, record)| record).collect());
        }
        let one = |(request, record): (Digest, Vec<u8>)| async move {
            Ok(self.store.keep_request(&request, record.into()).await?.into())
        };
        self.handle.block_on(stream::iter(records).map(one).buffered(AT_ONCE).try_collect())
    }
}
