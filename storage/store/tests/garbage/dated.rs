//! Implements a store in memory that dates objects by the clock of a test and yields to other tasks at seeded moments.

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path as Name;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};
use trainyard_core::clock::ManualClock;
use trainyard_core::{Chance, Clock};

/// For requests that yield, the longest pause in turns of the scheduler.
const PAUSE: u64 = 4;

#[derive(Clone)]
pub struct Dated(Arc<Inner>);

struct Inner {
    objects: InMemory,
    clock: Arc<ManualClock>,
    written: Mutex<BTreeMap<Name, i64>>,
    /// `None`: requests never yield.
    pauses: Option<Chance>,
    requests: AtomicU64,
}

impl Dated {
    pub fn new(clock: Arc<ManualClock>, pauses: Option<Chance>) -> Self {
        let (written, requests) = (Mutex::default(), AtomicU64::new(0));
        Self(Arc::new(Inner { objects: InMemory::new(), clock, written, pauses, requests }))
    }
    async fn pause(&self) {
        let Some(chance) = &self.0.pauses else { return };
        let request = self.0.requests.fetch_add(1, Ordering::Relaxed);
        for _ in 0..chance.at("pause", &[request]).below(PAUSE) {
            tokio::task::yield_now().await;
        }
    }
    fn wrote(&self, name: &Name) {
        self.0.written.lock().unwrap().insert(name.clone(), self.0.clock.unix_millis());
    }
    fn dated(&self, mut meta: ObjectMeta) -> ObjectMeta {
        let millis = self.0.written.lock().unwrap().get(&meta.location).copied().unwrap_or_default();
        meta.last_modified = (UNIX_EPOCH + Duration::from_millis(millis as u64)).into();
        meta
    }
}

impl fmt::Display for Dated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dated")
    }
}

impl fmt::Debug for Dated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dated")
    }
}

#[async_trait]
impl ObjectStore for Dated {
    async fn put_opts(&self, location: &Name, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.pause().await;
        let put = self.0.objects.put_opts(location, payload, options).await?;
        self.wrote(location);
        Ok(put)
    }
    /// Objects of multipart uploads get no date and are as old as the epoch. The tests put only small objects, in one
    /// request.
    async fn put_multipart_opts(&self, name: &Name, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.0.objects.put_multipart_opts(name, options).await
    }
    async fn get_opts(&self, location: &Name, options: GetOptions) -> Result<GetResult> {
        self.pause().await;
        let mut found = self.0.objects.get_opts(location, options).await?;
        found.meta = self.dated(found.meta);
        Ok(found)
    }
    /// Does not yield: between the last check of an object and its removal there is a moment in every real store, too,
    /// and `docs/design/0014-garbage.md` makes no claim about requests within it.
    fn delete_stream(&self, locations: BoxStream<'static, Result<Name>>) -> BoxStream<'static, Result<Name>> {
        self.0.objects.delete_stream(locations)
    }
    fn list(&self, prefix: Option<&Name>) -> BoxStream<'static, Result<ObjectMeta>> {
        let this = self.clone();
        self.0.objects.list(prefix).map_ok(move |meta| this.dated(meta)).boxed()
    }
    async fn list_with_delimiter(&self, prefix: Option<&Name>) -> Result<ListResult> {
        self.pause().await;
        self.0.objects.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &Name, to: &Name, options: CopyOptions) -> Result<()> {
        self.0.objects.copy_opts(from, to, options).await?;
        self.wrote(to);
        Ok(())
    }
    async fn rename_opts(&self, from: &Name, to: &Name, options: RenameOptions) -> Result<()> {
        self.0.objects.rename_opts(from, to, options).await?;
        self.wrote(to);
        Ok(())
    }
}
