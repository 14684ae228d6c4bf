//! Bytes of a Parquet file: a file on a disk, or an object that is read by ranges.

use crate::file_error::{catch_decode_errors, unreadable};
use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// An object that is read by ranges.
pub trait ReadRanges: Send + Sync {
    /// Returns the size in bytes.
    fn size(&self) -> u64;
    /// Reads a range within the size. Errors: those of the place where the object is.
    fn read(&self, range: Range<u64>) -> Result<Bytes>;
}

/// Place of a Parquet file.
#[derive(Clone)]
pub struct TableSource {
    /// Path of the file, or name of the object in errors.
    path: PathBuf,
    object: Option<Arc<TableObject>>,
}

impl TableSource {
    /// Returns the source of an object, which errors call `name`.
    pub fn of_object(name: impl Into<PathBuf>, ranges: Box<dyn ReadRanges>) -> Self {
        let object = TableObject { ranges, failure: Mutex::default() };
        Self { path: name.into(), object: Some(Arc::new(object)) }
    }
    /// Returns the path of the file, or the name of the object.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn open(&self) -> Result<TableBytes> {
        if let Some(object) = &self.object {
            return Ok(TableBytes::Object(object.clone()));
        }
        let mut file = File::open(&self.path).map_err(|e| io_error(&self.path, &e))?;
        let found = file.metadata().map_err(|e| io_error(&self.path, &e))?;
        if found.is_dir() {
            return Err(unreadable(&self.path, "it is a folder"));
        }
        if found.len() > SMALL {
            return Ok(TableBytes::File(file));
        }
        let mut bytes = Vec::with_capacity(found.len() as usize + 1);
        file.read_to_end(&mut bytes).map_err(|e| io_error(&self.path, &e))?;
        Ok(TableBytes::Small(bytes.into()))
    }
    /// Runs a step of reading. Errors and panics of the decoder become an error that names the file; an error of
    /// reading a range stays as it is.
    pub(crate) fn decode<T, E: Display>(&self, step: impl FnOnce() -> Result<T, E>) -> Result<T> {
        let decoded = catch_decode_errors(&self.path, step);
        match self.object.as_ref().and_then(|object| object.take_failure()) {
            Some(failure) if decoded.is_err() => Err(failure),
            _ => decoded,
        }
    }
}

impl From<&Path> for TableSource {
    fn from(path: &Path) -> Self {
        Self { path: path.to_path_buf(), object: None }
    }
}

impl From<&PathBuf> for TableSource {
    fn from(path: &PathBuf) -> Self {
        path.as_path().into()
    }
}

impl From<&Self> for TableSource {
    fn from(source: &Self) -> Self {
        source.clone()
    }
}

/// An object, and the last error of reading it: the decoder keeps only the text of errors.
pub(crate) struct TableObject {
    ranges: Box<dyn ReadRanges>,
    failure: Mutex<Option<Error>>,
}

impl TableObject {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        if range.end > self.ranges.size() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a page ends after the end of the file"));
        }
        self.ranges.read(range).map_err(|error| {
            let text = error.to_string();
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            io::Error::other(text)
        })
    }
    fn take_failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Maximum bytes of a file that is read at once. Its decoder would need a dozen system calls for each column.
const SMALL: u64 = 64 << 10;

/// An open source.
pub(crate) enum TableBytes {
    File(File),
    Small(Bytes),
    Object(Arc<TableObject>),
}

impl Length for TableBytes {
    fn len(&self) -> u64 {
        match self {
            Self::File(file) => Length::len(file),
            Self::Small(bytes) => Length::len(bytes),
            Self::Object(object) => object.ranges.size(),
        }
    }
}

impl ChunkReader for TableBytes {
    type T = Box<dyn Read + Send>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(match self {
            Self::File(file) => {
                let mut file = file.try_clone()?;
                file.seek(SeekFrom::Start(start))?;
                Box::new(BufReader::new(file))
            }
            Self::Small(bytes) => Box::new(bytes.get_read(start)?),
            Self::Object(object) => Box::new(BufReader::new(ObjectRead { object: object.clone(), at: start })),
        })
    }
    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        match self {
            Self::File(file) => file.get_bytes(start, length),
            Self::Small(bytes) => bytes.get_bytes(start, length),
            Self::Object(object) => Ok(object.read(start..start + length as u64)?),
        }
    }
}

/// Reader of an object from an offset on.
struct ObjectRead {
    object: Arc<TableObject>,
    at: u64,
}

impl Read for ObjectRead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = self.object.ranges.size().min(self.at + buffer.len() as u64);
        if end <= self.at {
            return Ok(0);
        }
        let bytes = self.object.read(self.at..end)?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.at = end;
        Ok(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchBounds, BatchReader, BatchWriter, GroupReader, ReadSlice, TableBuilder, rows_as_json};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Bytes in memory that count what is read, and cannot be read before an offset.
    struct Counted {
        bytes: Bytes,
        read: Arc<AtomicU64>,
        fails_before: u64,
    }

    impl ReadRanges for Counted {
        fn size(&self) -> u64 {
            self.bytes.len() as u64
        }
        fn read(&self, range: Range<u64>) -> Result<Bytes> {
            if range.start < self.fails_before {
                return Err(Error::retryable("the store does not respond"));
            }
            self.read.fetch_add(range.end - range.start, Ordering::Relaxed);
            Ok(self.bytes.slice(range.start as usize..range.end as usize))
        }
    }

    /// Returns a table of ten row groups as an object, and the counter of its bytes that were read.
    fn object(fails_before: u64) -> (TableSource, u64, Arc<AtomicU64>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let texts = (0..20_000u64).map(|i| trainyard_core::Digest::of(&i.to_le_bytes()).to_string());
        let batch = TableBuilder::new().i64("n", 0..20_000).string("text", texts).build().unwrap();
        let mut writer = BatchWriter::create_grouped(&path, batch.schema(), 2_000).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        let bytes = Bytes::from(std::fs::read(&path).unwrap());
        let (size, read) = (bytes.len() as u64, Arc::new(AtomicU64::new(0)));
        let counted = Counted { bytes, read: read.clone(), fails_before };
        (TableSource::of_object("objects/ab", Box::new(counted)), size, read)
    }

    #[test]
    fn a_row_reads_its_row_group_only() {
        let (source, size, read) = object(0);
        let rows = rows_as_json(&source, 14_731, 2).unwrap();
        assert_eq!((rows.len(), &rows[0]["n"], &rows[1]["n"]), (2, &14_731.into(), &14_732.into()));
        let bytes = read.load(Ordering::Relaxed);
        assert!(bytes > 0 && bytes < size / 3, "{bytes} of {size} bytes were read");
    }

    #[test]
    fn a_column_is_read_without_the_others() {
        let (source, size, read) = object(0);
        let columns = ["n".to_string()];
        let part = ReadSlice { columns: Some(&columns), ..ReadSlice::default() };
        let rows: usize = BatchReader::open_part(&source, &part).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(rows, 20_000);
        let bytes = read.load(Ordering::Relaxed);
        assert!(bytes < size / 2, "{bytes} of {size} bytes were read");
    }

    #[test]
    fn errors_of_the_object_keep_their_kind() {
        let error = BatchReader::open(&object(u64::MAX).0).err().unwrap();
        assert_eq!(error.message, "the store does not respond");
        // The footer, at the end, can be read; the pages before it cannot.
        let (_, size, _) = object(0);
        let (source, ..) = object(size - 10_000);
        let error = BatchReader::open(&source).unwrap().next().unwrap().unwrap_err();
        assert_eq!(error.kind, trainyard_core::ErrorKind::Retryable, "{error}");
        let mut groups = GroupReader::open(&source, None, BatchBounds::default()).unwrap();
        assert_eq!(groups.next().unwrap().unwrap_err().kind, trainyard_core::ErrorKind::Retryable);
    }
}
