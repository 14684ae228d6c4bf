//! Reads objects: small ones in one request, large ones in several concurrent ranges, each retried separately.
//!
//! A single request for a large object would have to survive every connection failure for as long as the transfer
//! takes, and a bucket gives one stream only a part of the bandwidth.

use crate::connection::ObjectRead;
use crate::layout;
use crate::store::Store;
use futures::{StreamExt, stream};
use trainyard_core::digest::Hasher;
use trainyard_core::{Digest, Result};

/// Bytes of one range, and of the largest object that is read at once.
const RANGE: u64 = 4 << 20;
/// Ranges of one object that are in flight or wait for earlier ones. With the number of concurrently fetched files
/// ([`crate::fetch`]) this bounds the memory: 64 MiB.
const READ_AHEAD: usize = 4;

impl Store {
    /// Reads an object and passes its bytes to `take`, piece by piece and in order. Returns digest and size of the
    /// received bytes; `None` if there is no such object.
    pub(crate) async fn stream_object(
        &self,
        digest: &Digest,
        mut take: impl FnMut(&[u8]) -> Result<()> + Send,
    ) -> Result<Option<(Digest, u64)>> {
        let place = layout::object(digest);
        let connection = self.connection();
        let (mut hasher, mut size) = (Hasher::new(), 0);
        let mut arrived = |piece: &[u8]| {
            hasher.update(piece);
            size += piece.len() as u64;
            take(piece)
        };
        match connection.begin_read(&place, RANGE).await? {
            None => return Ok(None),
            Some(ObjectRead::Whole(bytes)) => arrived(&bytes)?,
            Some(ObjectRead::Large(length)) => {
                let starts = stream::iter((0..length).step_by(RANGE as usize));
                let mut ranges = starts
                    .map(|start| connection.read_range(&place, start..length.min(start + RANGE)))
                    .buffered(READ_AHEAD);
                while let Some(bytes) = ranges.next().await {
                    match bytes? {
                        Some(bytes) => arrived(&bytes)?,
                        None => return Ok(None),
                    }
                }
            }
        }
        Ok(Some((hasher.finish(), size)))
    }
}

#[cfg(test)]
mod tests {
    use super::RANGE;
    use crate::{FetchMode, Store, StoreOptions};
    use object_store::memory::InMemory;
    use std::sync::Arc;
    use trainyard_core::{ErrorKind, FileEntry};
    use trainyard_testkit::faults::{FaultyStore, StoreFault};

    #[tokio::test]
    async fn large_object_is_read_in_ranges() {
        let faulty = FaultyStore::new(Arc::new(InMemory::new()));
        let store = Store::from_object_store(faulty.clone(), "memory://slow", StoreOptions::default()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        for length in [0, 1, RANGE, RANGE + 1, 6 * RANGE + 17] {
            let bytes: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let (digest, size) = store.put_object(bytes.clone().into()).await.unwrap();
            let files = [FileEntry { path: format!("weights-{length}"), digest: digest.clone(), size }];
            let fetch = || store.fetch_files(&files, folder.path(), FetchMode::Link);
            faulty.break_reads_over(RANGE);
            fetch().await.unwrap();
            assert!(std::fs::read(folder.path().join(&files[0].path)).unwrap() == bytes, "{length} bytes");
            assert!(store.read_object(&digest).await.unwrap() == bytes, "{length} bytes");
            // After an interrupted response, only its range is read again.
            faulty.inject(StoreFault::BrokenRead, "objects/", 3);
            fetch().await.unwrap();
            faulty.inject(StoreFault::BrokenRead, "objects/", u32::MAX);
            let error = fetch().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Retryable, "{error}");
            assert!(error.message.contains(digest.as_str()), "{error}");
            faulty.heal();
        }
    }
}
