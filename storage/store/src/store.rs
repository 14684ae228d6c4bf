//! Opens the store at a URL and verifies that its puts are create-only. The operations are in one module per kind of
//! record: [`crate::objects`], [`crate::manifests`], [`crate::checkpoints`], [`crate::attempts`], [`crate::streams`],
//! [`crate::journal`], [`crate::pins`], [`crate::requests`] and [`crate::runs`].

use crate::connection::{CreateOutcome, ObjectEntry, ObjectStoreClient};
use crate::layout;
use crate::location::StoreLocation;
use crate::options::StoreOptions;
use bytes::Bytes;
use object_store::ObjectStore;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use trainyard_core::{Error, Result};

/// Number of names that are tried for the probe.
const PROBE_NAMES: u32 = 3;
/// Number of openings by this process.
static OPENINGS: AtomicU64 = AtomicU64::new(0);

/// An open store. Cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<StoreInner>);

struct StoreInner {
    connection: ObjectStoreClient,
    options: StoreOptions,
}

impl Store {
    /// Checks whether a URL can name a store, by its text. Errors: invalid (unknown scheme, no bucket, bad prefix).
    pub fn check_url(url: &str) -> Result<()> {
        StoreLocation::parse(url).map(|_| ())
    }
    /// Opens a store by URL and verifies that its puts are create-only, by two puts of one fresh name from two
    /// connections:
    ///
    /// - a path or `file://…`: a folder, created unless the options forbid it
    /// - `s3://bucket/prefix`: credentials, region and endpoint come from the `AWS_*` environment variables
    /// - `az://container/prefix`: account, credentials and endpoint from `AZURE_*`
    /// - `gs://bucket/prefix`: credentials and endpoint from `GOOGLE_*`
    /// - `memory://`: a private store; `memory://name`: one shared within this process
    ///
    /// Errors: invalid (those of [`Store::check_url`], no permission, not create-only, a folder that does not exist and
    /// may not be created), retryable (network).
    pub async fn open(url: &str, options: StoreOptions) -> Result<Self> {
        let connection = ObjectStoreClient::open(url, &options)?;
        let store = Self(Arc::new(StoreInner { connection, options }));
        if store.0.options.probe && !store.0.options.read_only {
            let second = store.0.connection.reopen(&store.0.options)?;
            store.prove_create_only(&second).await?;
        }
        Ok(store.with_configured_outage())
    }
    /// Opens a store over any `object_store`, for tests that inject faults. `name` is used in messages.
    pub async fn from_object_store(objects: Arc<dyn ObjectStore>, name: &str, options: StoreOptions) -> Result<Self> {
        let connection = ObjectStoreClient::from_object_store(objects, name, &options);
        let store = Self(Arc::new(StoreInner { connection: connection.clone(), options }));
        if store.0.options.probe && !store.0.options.read_only {
            store.prove_create_only(&connection).await?;
        }
        Ok(store.with_configured_outage())
    }
    /// Returns the same store with another outage limit; see [`StoreOptions::outage`].
    #[must_use]
    pub fn with_outage(&self, outage: Duration) -> Self {
        let options = StoreOptions { outage, ..self.0.options.clone() };
        Self(Arc::new(StoreInner { connection: self.0.connection.with_outage(outage), options }))
    }
    fn with_configured_outage(self) -> Self {
        self.with_outage(self.0.options.outage)
    }
    /// Returns the complete URL; opening it again gives the same store.
    pub fn url(&self) -> &str {
        self.0.connection.url()
    }
    /// Returns the folder of a store on a disk; `None` for any other.
    pub fn local_root(&self) -> Option<&Path> {
        self.0.connection.root()
    }
    /// Returns the options with which the store was opened.
    pub fn options(&self) -> &StoreOptions {
        &self.0.options
    }
    /// Puts `bytes` under a name that must not exist yet. The result is `Ours` if exactly these bytes are stored in the
    /// end, even if an earlier attempt put them.
    ///
    /// Errors, naming the path: retryable (disk full, network), invalid (read-only, no permission).
    pub async fn create(&self, path: &str, bytes: Bytes) -> Result<CreateOutcome> {
        self.writable(path)?;
        self.0.connection.create(path, bytes).await
    }
    /// Returns the bytes under a name; `None` if there is no such object.
    pub async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        self.0.connection.get(path).await
    }
    /// Lists all names under a folder, at any depth, sorted. No decision may depend on a listing.
    pub async fn list(&self, prefix: &str) -> Result<Vec<String>> {
        Ok(self.0.connection.list(prefix).await?.into_iter().map(|entry| entry.path).collect())
    }
    /// Lists all objects under a folder, at any depth, sorted by path.
    pub async fn entries(&self, prefix: &str) -> Result<Vec<ObjectEntry>> {
        self.0.connection.list(prefix).await
    }
    /// Lists the names of the folders directly under a folder, sorted.
    pub async fn list_folders(&self, prefix: &str) -> Result<Vec<String>> {
        self.0.connection.list_folders(prefix).await
    }
    /// Lists the names of the objects directly under a folder, sorted. No decision may depend on a listing.
    pub async fn list_names(&self, prefix: &str) -> Result<Vec<String>> {
        self.0.connection.list_names(prefix).await
    }
    /// Fires a schedule's tick: one object per tick, so exactly one of several daemons gets `Ours`.
    pub async fn fire_tick(&self, schedule: &str, tick: &str, body: Bytes) -> Result<CreateOutcome> {
        self.create(&layout::tick(schedule, tick), body).await
    }

    pub(crate) fn connection(&self) -> &ObjectStoreClient {
        &self.0.connection
    }
    /// Rejects a put into a store that was opened read-only.
    pub(crate) fn writable(&self, path: &str) -> Result<()> {
        if self.0.options.read_only {
            return Err(Error::invalid(format!("cannot write {}/{path}: the store was opened read-only", self.url())));
        }
        Ok(())
    }
    /// Removes an object; it may be missing already. No protocol may rely on removal.
    pub(crate) async fn delete(&self, path: &str) -> Result<()> {
        self.writable(path)?;
        self.0.connection.delete(path).await
    }

    async fn prove_create_only(&self, second: &ObjectStoreClient) -> Result<()> {
        let first = &self.0.connection;
        let millis = self.0.options.clock.unix_millis();
        for _ in 0..PROBE_NAMES {
            // The count distinguishes openings that share clock and chance.
            let opening = OPENINGS.fetch_add(1, Ordering::Relaxed);
            let mark = self.0.options.chance.at("store_probe", &[millis as u64, opening]).next_u64();
            let path = format!("{}/{millis}-{opening}-{mark:016x}", layout::PROBES);
            let (ours, theirs) = (Bytes::from(format!("{path} first\n")), Bytes::from(format!("{path} second\n")));
            if matches!(first.create(&path, ours.clone()).await?, CreateOutcome::Theirs(_)) {
                continue;
            }
            let result = second.create(&path, theirs).await;
            // A leftover probe is harmless.
            let _ = first.delete(&path).await;
            return match result? {
                CreateOutcome::Theirs(bytes) if bytes == ours => Ok(()),
                _ => Err(Error::invalid(format!(
                    "the store {} let two writers create the same object, so an artifact could be published twice",
                    self.url()
                ))
                .help(
                    "use a bucket that honors conditional puts (`If-None-Match: *`), or a file system with hard links",
                )),
            };
        }
        Err(Error::retryable(format!("found no unused name for a probe in the store {}", self.url()))
            .help("run the same command again"))
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", self.url())
    }
}
