//! An `object_store` that fails on command, for tests of full disks, read-only stores and lost answers.

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path as Name;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result as StoreResult,
};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// How a put fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The disk is full; nothing is written.
    DiskFull,
    /// The store became read-only; nothing is written.
    ReadOnly,
    /// The credentials lost their permission; nothing is written.
    Denied,
    /// The request is lost: nothing is written, the error is unclear.
    LostRequest,
    /// The answer is lost: the bytes are written, the error is unclear.
    LostAnswer,
    /// The answer to a retried put: the bytes are written, and the error says that the name exists.
    ExistsAfterRetry,
    /// A store that ignores the condition of a create-only put.
    IgnoresCondition,
}

#[derive(Debug)]
struct Rule {
    fault: Fault,
    part: String,
    times: u32,
}

/// Passes everything on to another store, but fails puts by rules.
#[derive(Debug)]
pub struct Faulty {
    inner: Arc<dyn ObjectStore>,
    rules: Mutex<Vec<Rule>>,
}

impl Faulty {
    /// Wraps a store, without rules.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Arc<Self> {
        Arc::new(Self { inner, rules: Mutex::new(Vec::new()) })
    }
    /// Makes the next `times` puts of paths that contain `part` fail.
    pub fn inject(&self, fault: Fault, part: &str, times: u32) {
        self.lock().push(Rule { fault, part: part.to_string(), times });
    }
    /// Removes all rules.
    pub fn heal(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Rule>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn next_fault(&self, name: &Name) -> Option<Fault> {
        let mut rules = self.lock();
        let rule = rules.iter_mut().find(|rule| rule.times > 0 && name.as_ref().contains(&rule.part))?;
        rule.times -= 1;
        Some(rule.fault)
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faulty({})", self.inner)
    }
}

/// A disk's fault, as `object_store` wraps it.
fn disk(kind: i32) -> StoreError {
    StoreError::Generic { store: "faulty", source: io::Error::from_raw_os_error(kind).into() }
}

fn unclear() -> StoreError {
    StoreError::Generic { store: "faulty", source: "connection closed before the answer".into() }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Name, payload: PutPayload, options: PutOptions) -> StoreResult<PutResult> {
        const ENOSPC: i32 = 28;
        const EROFS: i32 = 30;
        match self.next_fault(location) {
            None => self.inner.put_opts(location, payload, options).await,
            Some(Fault::DiskFull) => Err(disk(ENOSPC)),
            Some(Fault::ReadOnly) => Err(disk(EROFS)),
            Some(Fault::Denied) => {
                Err(StoreError::PermissionDenied { path: location.to_string(), source: "403 Forbidden".into() })
            }
            Some(Fault::LostRequest) => Err(unclear()),
            Some(Fault::LostAnswer) => self.inner.put_opts(location, payload, options).await.and(Err(unclear())),
            Some(Fault::ExistsAfterRetry) => {
                let exists =
                    StoreError::AlreadyExists { path: location.to_string(), source: "412 Precondition Failed".into() };
                self.inner.put_opts(location, payload, options).await.and(Err(exists))
            }
            Some(Fault::IgnoresCondition) => self.inner.put_opts(location, payload, PutOptions::default()).await,
        }
    }
    async fn put_multipart_opts(
        &self,
        location: &Name,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        match self.next_fault(location) {
            Some(Fault::ReadOnly) => Err(disk(30)),
            Some(Fault::Denied) => {
                Err(StoreError::PermissionDenied { path: location.to_string(), source: "403 Forbidden".into() })
            }
            Some(Fault::DiskFull) => Err(disk(28)),
            Some(Fault::LostRequest | Fault::LostAnswer) => Err(unclear()),
            _ => self.inner.put_multipart_opts(location, options).await,
        }
    }
    async fn get_opts(&self, location: &Name, options: GetOptions) -> StoreResult<GetResult> {
        self.inner.get_opts(location, options).await
    }
    async fn get_ranges(&self, location: &Name, ranges: &[Range<u64>]) -> StoreResult<Vec<bytes::Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }
    fn delete_stream(&self, locations: BoxStream<'static, StoreResult<Name>>) -> BoxStream<'static, StoreResult<Name>> {
        self.inner.delete_stream(locations)
    }
    fn list(&self, prefix: Option<&Name>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.inner.list(prefix).boxed()
    }
    fn list_with_offset(&self, prefix: Option<&Name>, offset: &Name) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }
    async fn list_with_delimiter(&self, prefix: Option<&Name>) -> StoreResult<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &Name, to: &Name, options: CopyOptions) -> StoreResult<()> {
        self.inner.copy_opts(from, to, options).await
    }
    async fn rename_opts(&self, from: &Name, to: &Name, options: RenameOptions) -> StoreResult<()> {
        self.inner.rename_opts(from, to, options).await
    }
}
