//! Provides an `object_store` that fails on command, for tests of full disks, read-only stores, and lost or broken
//! responses.

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::path::Path as Name;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result as StoreResult,
};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Failure of a request: of a put, or, with [`StoreFault::BrokenRead`], of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    /// The disk is full; nothing is written.
    DiskFull,
    /// The store became read-only; nothing is written.
    ReadOnly,
    /// The credentials lost their permission; nothing is written.
    Denied,
    /// The request is lost: nothing is written, the error is unclear.
    LostRequest,
    /// The response is lost: the bytes are written, the error is unclear.
    LostAnswer,
    /// The request is lost without an error, as on a connection that a firewall dropped.
    NoAnswer,
    /// The response to a retried put: the bytes are written, and the error reports that the name exists.
    ExistsAfterRetry,
    /// The store ignores the condition of a create-only put.
    IgnoresCondition,
    /// The response to a read breaks off in the middle.
    BrokenRead,
}

#[derive(Debug)]
struct FaultRule {
    fault: StoreFault,
    part: String,
    times: u32,
}

/// Forwards requests to another store, but fails some of them by rules.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Arc<dyn ObjectStore>,
    rules: Mutex<Vec<FaultRule>>,
    longest_read: AtomicU64,
}

impl FaultyStore {
    /// Wraps a store, without rules.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Arc<Self> {
        Arc::new(Self { inner, rules: Mutex::new(Vec::new()), longest_read: AtomicU64::new(u64::MAX) })
    }
    /// Makes the next `times` requests fail that match the kind of the fault and whose path contains `part`.
    pub fn inject(&self, fault: StoreFault, part: &str, times: u32) {
        self.lock().push(FaultRule { fault, part: part.to_string(), times });
    }
    /// Breaks off every read of more than `bytes` bytes, as a limit on the time of a request does.
    pub fn break_reads_over(&self, bytes: u64) {
        self.longest_read.store(bytes, Ordering::SeqCst);
    }
    /// Removes all rules and the limit on reads.
    pub fn heal(&self) {
        self.lock().clear();
        self.longest_read.store(u64::MAX, Ordering::SeqCst);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<FaultRule>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Returns the fault of the next put of `name`, or `None` if no rule matches. Counts the put for the matching rule.
    fn next_fault(&self, name: &Name) -> Option<StoreFault> {
        self.take_rule(name, |fault| fault != StoreFault::BrokenRead)
    }
    fn take_rule(&self, name: &Name, sort: impl Fn(StoreFault) -> bool) -> Option<StoreFault> {
        let mut rules = self.lock();
        let concerns = |rule: &&mut FaultRule| rule.times > 0 && sort(rule.fault) && name.as_ref().contains(&rule.part);
        let rule = rules.iter_mut().find(concerns)?;
        rule.times -= 1;
        Some(rule.fault)
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faulty({})", self.inner)
    }
}

/// Returns the error of a disk, wrapped as `object_store` wraps it.
fn disk(kind: i32) -> StoreError {
    StoreError::Generic { store: "faulty", source: io::Error::from_raw_os_error(kind).into() }
}

/// Returns the response `found`, broken off after the first `bytes` bytes.
async fn broken_off(found: GetResult, bytes: u64) -> StoreResult<GetResult> {
    let (meta, range) = (found.meta.clone(), found.range.clone());
    let (attributes, extensions) = (found.attributes.clone(), found.extensions.clone());
    let arrived = found.bytes().await?.slice(..bytes as usize);
    let payload = GetResultPayload::Stream(stream::iter([Ok(arrived), Err(unclear())]).boxed());
    Ok(GetResult { payload, meta, range, attributes, extensions })
}

fn unclear() -> StoreError {
    StoreError::Generic { store: "faulty", source: "connection closed before the response".into() }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, location: &Name, payload: PutPayload, options: PutOptions) -> StoreResult<PutResult> {
        const ENOSPC: i32 = 28;
        const EROFS: i32 = 30;
        match self.next_fault(location) {
            None | Some(StoreFault::BrokenRead) => self.inner.put_opts(location, payload, options).await,
            Some(StoreFault::DiskFull) => Err(disk(ENOSPC)),
            Some(StoreFault::ReadOnly) => Err(disk(EROFS)),
            Some(StoreFault::Denied) => {
                Err(StoreError::PermissionDenied { path: location.to_string(), source: "403 Forbidden".into() })
            }
            Some(StoreFault::LostRequest) => Err(unclear()),
            Some(StoreFault::NoAnswer) => std::future::pending().await,
            Some(StoreFault::LostAnswer) => self.inner.put_opts(location, payload, options).await.and(Err(unclear())),
            Some(StoreFault::ExistsAfterRetry) => {
                let exists =
                    StoreError::AlreadyExists { path: location.to_string(), source: "412 Precondition Failed".into() };
                self.inner.put_opts(location, payload, options).await.and(Err(exists))
            }
            Some(StoreFault::IgnoresCondition) => self.inner.put_opts(location, payload, PutOptions::default()).await,
        }
    }
    async fn put_multipart_opts(
        &self,
        location: &Name,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        match self.next_fault(location) {
            Some(StoreFault::ReadOnly) => Err(disk(30)),
            Some(StoreFault::Denied) => {
                Err(StoreError::PermissionDenied { path: location.to_string(), source: "403 Forbidden".into() })
            }
            Some(StoreFault::DiskFull) => Err(disk(28)),
            Some(StoreFault::LostRequest | StoreFault::LostAnswer) => Err(unclear()),
            _ => self.inner.put_multipart_opts(location, options).await,
        }
    }
    async fn get_opts(&self, location: &Name, options: GetOptions) -> StoreResult<GetResult> {
        let bytes_follow = !options.head;
        let found = self.inner.get_opts(location, options).await?;
        let (length, longest) = (found.range.end - found.range.start, self.longest_read.load(Ordering::SeqCst));
        if bytes_follow && self.take_rule(location, |fault| fault == StoreFault::BrokenRead).is_some() {
            return broken_off(found, length / 2).await;
        }
        if bytes_follow && length > longest { broken_off(found, longest).await } else { Ok(found) }
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
