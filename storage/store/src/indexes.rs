//! Stores and reads the indexes of artifacts: `indexes/messages/<output-digest>`.
//!
//! An index is a cache. It is made from the objects of an output, so it may be missing, and it is replaced if it is
//! damaged or has an older format. Equal outputs have equal indexes, so it does not matter which of two builders is
//! last. A reader detects a damaged index by the checksums within the file.

use crate::connection::{MIN_ATTEMPTS, parse};
use crate::damage::missing;
use crate::error::{file_error, request_error};
use crate::layout;
use crate::store::Store;
use crate::upload::{blocking, hash_file};
use bytes::Bytes;
use std::ops::Range;
use std::path::{Path, PathBuf};
use trainyard_core::{Digest, Result};

/// Maximum bytes of an index that is put in one request.
const ONE_REQUEST: u64 = 8 << 20;

impl Store {
    /// Stores a file as the index of an output's messages, in place of an earlier index.
    ///
    /// Errors: invalid (read-only store, no permission), retryable (disk full, network).
    pub async fn put_message_index(&self, output: &Digest, file: &Path) -> Result<()> {
        let place = layout::message_index(output);
        self.writable(&place)?;
        let path = file.to_path_buf();
        let (digest, size) = blocking(move || hash_file(&path)).await?;
        if size <= ONE_REQUEST {
            let path = file.to_path_buf();
            let read = move || std::fs::read(&path).map_err(|e| file_error("read", &path.display().to_string(), &e));
            return self.overwrite(&place, blocking(read).await?.into()).await;
        }
        let name = parse(&place)?;
        let mut retry = self.connection().start_request(MIN_ATTEMPTS);
        while let Err(error) = self.upload_once(&name, file, &digest, size).await? {
            if !retry.wait_to_retry(self.url(), &error).await {
                return Err(request_error("write", self.url(), &place, &error));
            }
        }
        retry.record_response(self.url());
        Ok(())
    }
    /// Returns the size in bytes of the index of an output's messages; `None` if there is no index.
    pub async fn message_index_size(&self, output: &Digest) -> Result<Option<u64>> {
        self.connection().size(&layout::message_index(output)).await
    }
    /// Reads a range of the index of an output's messages. Errors: lost (missing).
    pub async fn read_message_index(&self, output: &Digest, range: Range<u64>) -> Result<Bytes> {
        let path = layout::message_index(output);
        self.connection().read_range(&path, range).await?.ok_or_else(|| missing(self.url(), &path))
    }
    /// Returns the path of the index of an output's messages in a store that is a folder; `None` in any other.
    pub fn message_index_path(&self, output: &Digest) -> Option<PathBuf> {
        self.local_root().map(|root| root.join(layout::message_index(output)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreOptions;
    use trainyard_core::ErrorKind;

    async fn put_and_read(store: &Store) {
        let folder = tempfile::tempdir().unwrap();
        let (file, output) = (folder.path().join("index"), Digest::of(b"output"));
        assert_eq!(store.message_index_size(&output).await.unwrap(), None);
        assert_eq!(store.read_message_index(&output, 0..1).await.unwrap_err().kind, ErrorKind::Lost);
        let large: Vec<u8> = (0..ONE_REQUEST + 5).map(|i| (i % 251) as u8).collect();
        for bytes in [b"first".to_vec(), large, b"second one".to_vec()] {
            std::fs::write(&file, &bytes).unwrap();
            store.put_message_index(&output, &file).await.unwrap();
            assert_eq!(store.message_index_size(&output).await.unwrap(), Some(bytes.len() as u64));
            assert_eq!(store.read_message_index(&output, 1..4).await.unwrap(), bytes[1..4]);
        }
    }

    #[tokio::test]
    async fn an_index_replaces_the_one_before_it() {
        put_and_read(&Store::open("memory://", StoreOptions::default()).await.unwrap()).await;
        let folder = tempfile::tempdir().unwrap();
        let url = folder.path().display().to_string();
        put_and_read(&Store::open(&url, StoreOptions::default()).await.unwrap()).await;
        let store = Store::open(&url, StoreOptions { read_only: true, ..StoreOptions::default() }).await.unwrap();
        let (file, output) = (folder.path().join("index"), Digest::of(b"output"));
        std::fs::write(&file, b"third").unwrap();
        assert_eq!(store.put_message_index(&output, &file).await.unwrap_err().kind, ErrorKind::Invalid);
        assert_eq!(std::fs::read(store.message_index_path(&output).unwrap()).unwrap(), b"second one");
    }
}
