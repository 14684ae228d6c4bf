//! Reads ranges of a stored file: from the file of a store on a disk, or by requests of any other store.

use bytes::Bytes;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;
use tokio::runtime::Handle;
use trainyard_core::error::io_error;
use trainyard_core::{Digest, FileEntry, Result};
use trainyard_store::Store;

/// A stored file.
pub enum ObjectBytes {
    /// File on a disk.
    File(PathBuf, File),
    /// Object of another store.
    Object(Store, Digest, Handle),
}

impl ObjectBytes {
    /// Opens a file of an artifact. Errors: those of the file system.
    pub fn open(store: &Store, file: &FileEntry, runtime: &Handle) -> Result<Self> {
        match store.object_path(&file.digest) {
            Some(path) => {
                let opened = File::open(&path).map_err(|e| io_error(&path, &e))?;
                Ok(Self::File(path, opened))
            }
            None => Ok(Self::Object(store.clone(), file.digest.clone(), runtime.clone())),
        }
    }
    /// Reads a range within the size. Blocks the thread. Errors: those of the file system or of the store.
    pub fn read(&mut self, range: Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        match self {
            Self::File(path, file) => {
                let mut bytes = vec![0; (range.end - range.start) as usize];
                let read = file.seek(SeekFrom::Start(range.start)).and_then(|_| file.read_exact(&mut bytes));
                read.map_err(|e| io_error(path, &e))?;
                Ok(bytes.into())
            }
            Self::Object(store, digest, runtime) => runtime.block_on(store.read_object_range(digest, range)),
        }
    }
}
