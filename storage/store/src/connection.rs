//! Connects to the location of a store and sends its requests: reads, create-only puts, listings and deletions. Only
//! this module and [`crate::upload`] call `object_store`.

use crate::error::{file_error, request_error};
use crate::local;
use crate::location::StoreLocation;
use crate::options::{MissingFolder, StoreOptions};
use crate::retry::{OutagePolicy, RetryState};
use crate::root::Root;
use crate::schemes::Scheme;
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path as Name;
use object_store::prefix::PrefixStore;
use object_store::retry::RetryPolicy;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trainyard_core::{Error, Result};

/// Minimum number of attempts to put one name or read one range, even if the outage limit is zero. In a bucket,
/// `object_store` also retries the request within each attempt.
pub(crate) const MIN_ATTEMPTS: u32 = 4;

/// Timeout of the response to a put, in addition to the transfer time of its bytes.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Lowest supported bandwidth, in bytes per second.
const MIN_BANDWIDTH: usize = 32 << 10;

/// Owner of the bytes under a name after a create-only put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateOutcome {
    /// Bytes of this put or an earlier attempt of it.
    Ours,
    /// Bytes of another writer that was first.
    Theirs(Bytes),
}

/// Result of [`ObjectStoreClient::begin_read`].
pub(crate) enum ObjectRead {
    /// All bytes of a small object.
    Whole(Bytes),
    /// Size in bytes of a larger object.
    Large(u64),
}

/// An object as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectEntry {
    /// Path in the store.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Time of writing, in Unix milliseconds by the store's clock.
    pub modified_millis: i64,
}

#[derive(Clone)]
pub(crate) struct ObjectStoreClient {
    url: String,
    /// Folder of a store on a disk.
    root: Option<Root>,
    /// Whether puts may bypass `object_store`.
    direct: bool,
    objects: Arc<dyn ObjectStore>,
    outage_policy: OutagePolicy,
}

/// Stores by name for `memory://name`.
static SHARED_MEMORY: Mutex<BTreeMap<String, Arc<InMemory>>> = Mutex::new(BTreeMap::new());

/// URL of a store that only its opener can reach.
const PRIVATE_MEMORY: &str = "memory://";

impl ObjectStoreClient {
    pub fn open(url: &str, options: &StoreOptions) -> Result<Self> {
        match StoreLocation::parse(url)? {
            StoreLocation::Folder(folder) => Self::open_folder(folder, options),
            StoreLocation::Bucket { scheme, name, prefix } => Self::open_bucket(scheme, name, prefix, options),
            StoreLocation::Memory("") => {
                Ok(Self::from_object_store(Arc::new(InMemory::new()), PRIVATE_MEMORY, options))
            }
            StoreLocation::Memory(name) => {
                let mut all = SHARED_MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(Self::from_object_store(
                    all.entry(name.to_string()).or_default().clone(),
                    &format!("memory://{name}"),
                    options,
                ))
            }
        }
    }
    /// Opens a second connection to the same location.
    pub fn reopen(&self, options: &StoreOptions) -> Result<Self> {
        if self.url == PRIVATE_MEMORY { Ok(self.clone()) } else { Self::open(&self.url, options) }
    }
    pub fn from_object_store(objects: Arc<dyn ObjectStore>, name: &str, options: &StoreOptions) -> Self {
        let patience = OutagePolicy::none(&options.clock);
        Self { url: name.to_string(), root: None, direct: false, objects, outage_policy: patience }
    }
    fn open_bucket(scheme: &Scheme, name: &str, prefix: Option<Name>, options: &StoreOptions) -> Result<Self> {
        let bucket = (scheme.connect)(name)?;
        let url = format!("{}://{name}", scheme.name);
        Ok(match prefix {
            None => Self::from_object_store(bucket, &url, options),
            Some(prefix) => {
                let url = format!("{url}/{prefix}");
                Self::from_object_store(Arc::new(PrefixStore::new(bucket, prefix)), &url, options)
            }
        })
    }
    fn open_folder(folder: &str, options: &StoreOptions) -> Result<Self> {
        let folder = Path::new(if folder.is_empty() { "." } else { folder });
        let place = folder.display().to_string();
        if !options.read_only && options.missing == MissingFolder::Make {
            std::fs::create_dir_all(folder).map_err(|e| file_error("make the store", &place, &e))?;
        }
        let root = match std::fs::canonicalize(folder) {
            Ok(root) if root.is_dir() => root,
            Ok(_) => {
                return Err(
                    Error::invalid(format!("the store {place} is not a folder")).help("give `--store` a folder")
                );
            }
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(file_error("open the store", &place, &e)),
            // Read-only: puts into this memory would be lost.
            Err(_) if options.read_only && options.missing == MissingFolder::Empty => {
                return Ok(Self::from_object_store(Arc::new(InMemory::new()), &place, options));
            }
            Err(_) => {
                return Err(Error::invalid(format!("there is no store at {place}"))
                    .help("give `--store`, or run a workflow first"));
            }
        };
        let files = LocalFileSystem::new_with_prefix(&root)
            .map_err(|e| request_error("open", &place, "", &e))?
            .with_fsync(options.durability_fsync);
        let url = format!("file://{}", root.display());
        let root = Root::of(root).map_err(|e| file_error("open the store", &place, &e))?;
        let direct = !options.durability_fsync;
        Ok(Self { url, root: Some(root), direct, ..Self::from_object_store(Arc::new(files), "", options) })
    }
    /// Returns a connection that retries transient errors for up to `outage`. A newly opened connection has an outage
    /// limit of zero, since its opener needs a prompt error.
    pub fn with_outage(&self, outage: Duration) -> Self {
        Self { outage_policy: self.outage_policy.with_outage(outage), ..self.clone() }
    }
    /// Returns the retry state of a request.
    pub fn start_request(&self, min_attempts: u32) -> RetryState<'_> {
        self.outage_policy.start_request(min_attempts)
    }
    /// Returns the retry policy for the parts of an upload.
    pub fn upload_policy(&self) -> Arc<dyn RetryPolicy> {
        self.outage_policy.upload_policy()
    }
    pub fn url(&self) -> &str {
        &self.url
    }
    pub fn root(&self) -> Option<&Path> {
        self.root.as_ref().map(Root::path)
    }
    pub fn objects(&self) -> &Arc<dyn ObjectStore> {
        &self.objects
    }

    /// Puts bytes under a name by the create-only rule. After `AlreadyExists` or an inconclusive error, the name is
    /// read: equal bytes are a success, other bytes mean that another writer won, and a free name means that the put is
    /// retried.
    pub async fn create(&self, path: &str, bytes: Bytes) -> Result<CreateOutcome> {
        let name = parse(path)?;
        let mut retry = self.start_request(MIN_ATTEMPTS);
        loop {
            let Err(error) = self.put_new(&name, &bytes).await else {
                tracing::debug!(path, bytes = bytes.len(), "created");
                retry.record_response(&self.url);
                return Ok(CreateOutcome::Ours);
            };
            tracing::debug!(path, error = &error as &dyn std::error::Error, "a put failed");
            // The wait is either in this read or in the next put, but not in both.
            if let Ok(Some(found)) = self.with_outage(Duration::ZERO).get(path).await {
                retry.record_response(&self.url);
                return Ok(if found == bytes { CreateOutcome::Ours } else { CreateOutcome::Theirs(found) });
            }
            if !retry.wait_to_retry(&self.url, &error).await {
                return Err(request_error("write", &self.url, path, &error));
            }
        }
    }
    async fn put_new(&self, name: &Name, bytes: &Bytes) -> object_store::Result<()> {
        match (&self.root, self.direct) {
            (Some(root), true) => {
                local::create(root, name.as_ref(), bytes).map_err(|source| direct_error(name, source))
            }
            _ => {
                self.require_root(name)?;
                let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
                let put = self.objects.put_opts(name, PutPayload::from(bytes.clone()), options);
                self.with_response_timeout(bytes.len(), put).await.map(|_| ())
            }
        }
    }
    /// Sends a put of `bytes` bytes, and abandons it when no response can be expected any more. Firewalls silently drop
    /// connections, and a client could wait on one for minutes; an attempt whose heartbeats are delayed that long would
    /// be considered lost. The next attempt of the put opens a new connection. A put to a disk has no timeout, since a
    /// second connection would not help if the disk hangs.
    pub async fn with_response_timeout<T>(
        &self,
        bytes: usize,
        put: impl Future<Output = object_store::Result<T>>,
    ) -> object_store::Result<T> {
        if self.root.is_some() {
            return put.await;
        }
        let limit = RESPONSE_TIMEOUT + Duration::from_secs((bytes / MIN_BANDWIDTH) as u64);
        match tokio::time::timeout(limit, put).await {
            Ok(response) => response,
            Err(_) => {
                let source = format!("no response within {} s", limit.as_secs()).into();
                Err(object_store::Error::Generic { store: "bucket", source })
            }
        }
    }
    /// Fails if the folder of a store on a disk is missing: `object_store` would create it again.
    pub fn require_root(&self, name: &Name) -> object_store::Result<()> {
        match &self.root {
            Some(root) => root.require().map_err(|source| direct_error(name, source)),
            None => Ok(()),
        }
    }
    pub async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        if let Some(root) = self.root() {
            return local::read(&root.join(path))
                .map(|found| found.map(Bytes::from))
                .map_err(|e| file_error("read", &format!("{}/{path}", self.url), &e));
        }
        let name = parse(path)?;
        self.optional_read(
            path,
            self.send_with_retries(1, || async { self.objects.get(&name).await?.bytes().await }).await,
        )
    }
    /// Reads all bytes of an object of at most `max_bytes` bytes, or the size of a larger one; returns `None` if there
    /// is no such object.
    pub async fn begin_read(&self, path: &str, max_bytes: u64) -> Result<Option<ObjectRead>> {
        let name = parse(path)?;
        let read = || async {
            let found = self.objects.get(&name).await?;
            // The response that is dropped here has hardly begun to arrive.
            if found.meta.size > max_bytes {
                Ok(ObjectRead::Large(found.meta.size))
            } else {
                found.bytes().await.map(ObjectRead::Whole)
            }
        };
        self.optional_read(path, self.send_with_retries(MIN_ATTEMPTS, read).await)
    }
    /// Reads a range of an object; returns `None` if there is no such object.
    pub async fn read_range(&self, path: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        let name = parse(path)?;
        self.optional_read(
            path,
            self.send_with_retries(MIN_ATTEMPTS, || self.objects.get_range(&name, range.clone())).await,
        )
    }
    /// Converts the result of a read; `None` if there is no such object.
    fn optional_read<T>(&self, path: &str, response: object_store::Result<T>) -> Result<Option<T>> {
        match response {
            Ok(found) => Ok(Some(found)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(request_error("read", &self.url, path, &e)),
        }
    }
    /// Sends a request until it succeeds or finds no object, or its error is permanent, or the outage limit is
    /// exceeded. After a transient error the request is sent at least `min_attempts` times.
    async fn send_with_retries<T, F: Future<Output = object_store::Result<T>>>(
        &self,
        min_attempts: u32,
        mut request: impl FnMut() -> F,
    ) -> object_store::Result<T> {
        let mut retry = self.start_request(min_attempts);
        loop {
            let response = request().await;
            match &response {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => retry.record_response(&self.url),
                Err(error) if retry.wait_to_retry(&self.url, error).await => continue,
                Err(_) => {}
            }
            return response;
        }
    }
    /// Returns the size in bytes of the object of this name; `None` if there is no such object.
    pub async fn size(&self, path: &str) -> Result<Option<u64>> {
        if let Some(root) = self.root() {
            return local::size(&root.join(path)).map_err(|e| file_error("read", &format!("{}/{path}", self.url), &e));
        }
        let name = parse(path)?;
        let meta = self.optional_read(path, self.send_with_retries(1, || self.objects.head(&name)).await)?;
        Ok(meta.map(|meta| meta.size))
    }
    /// Returns the time at which the object of this name was written, in Unix milliseconds by the store's clock; `None`
    /// if there is no such object.
    pub async fn modified(&self, path: &str) -> Result<Option<i64>> {
        if let Some(root) = self.root() {
            return local::modified(&root.join(path))
                .map_err(|e| file_error("read", &format!("{}/{path}", self.url), &e));
        }
        let name = parse(path)?;
        let meta = self.optional_read(path, self.send_with_retries(1, || self.objects.head(&name)).await)?;
        Ok(meta.map(|meta| meta.last_modified.timestamp_millis()))
    }
    /// Lists everything under a folder, sorted by path.
    pub async fn list(&self, prefix: &str) -> Result<Vec<ObjectEntry>> {
        let name = parse(prefix)?;
        let metas: Vec<object_store::ObjectMeta> = self
            .send_with_retries(1, || self.objects.list(Some(&name)).try_collect())
            .await
            .map_err(|e| request_error("list", &self.url, prefix, &e))?;
        let entry = |meta: object_store::ObjectMeta| ObjectEntry {
            path: meta.location.to_string(),
            size: meta.size,
            modified_millis: meta.last_modified.timestamp_millis(),
        };
        let mut entries: Vec<_> = metas.into_iter().map(entry).collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }
    /// Lists the names of the folders directly under a folder, sorted.
    pub async fn list_folders(&self, prefix: &str) -> Result<Vec<String>> {
        let name = parse(prefix)?;
        if let Some(root) = self.root() {
            return self.local_names(root, prefix, true);
        }
        let found = self
            .send_with_retries(1, || self.objects.list_with_delimiter(Some(&name)))
            .await
            .map_err(|e| request_error("list", &self.url, prefix, &e))?;
        let mut names: Vec<_> = found.common_prefixes.iter().filter_map(|p| p.filename().map(str::to_string)).collect();
        names.sort();
        Ok(names)
    }
    /// Lists the names of the objects directly under a folder, sorted.
    pub async fn list_names(&self, prefix: &str) -> Result<Vec<String>> {
        if let Some(root) = self.root() {
            return self.local_names(root, prefix, false);
        }
        let folder = format!("{prefix}/");
        let entries = self.list(prefix).await?;
        let name = |entry: &ObjectEntry| entry.path.strip_prefix(&folder).map(str::to_string);
        Ok(entries.iter().filter_map(name).filter(|name| !name.contains('/')).collect())
    }
    /// Lists a folder of a disk without reading file metadata, since a store may have 10,000 runs.
    fn local_names(&self, root: &Path, prefix: &str, folders: bool) -> Result<Vec<String>> {
        local::names(&root.join(prefix), folders).map_err(|e| file_error("list", &format!("{}/{prefix}", self.url), &e))
    }
    pub async fn delete(&self, path: &str) -> Result<()> {
        let name = parse(path)?;
        match self.send_with_retries(1, || self.objects.delete(&name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(request_error("delete", &self.url, path, &e)),
        }
    }
}

/// Converts a path for `object_store`.
pub(crate) fn parse(path: &str) -> Result<Name> {
    Name::parse(path).map_err(|e| Error::bug(format!("`{path}` is not a path in a store: {e}")))
}

/// Converts a shortcut's error to one of `object_store`, so that one rule applies to both.
fn direct_error(name: &Name, source: io::Error) -> object_store::Error {
    match source.kind() {
        io::ErrorKind::AlreadyExists => {
            object_store::Error::AlreadyExists { path: name.to_string(), source: source.into() }
        }
        _ => object_store::Error::Generic { store: "disk", source: source.into() },
    }
}
