//! Provides an in-memory `object_store` that yields to other tasks before and after each put and get.

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// In-memory store whose puts and gets take turns with other tasks.
#[derive(Debug)]
pub struct Stepping {
    inner: InMemory,
    turn: AtomicBool,
    through: AtomicBool,
}

impl Stepping {
    pub fn new() -> Arc<Self> {
        let (turn, through) = (AtomicBool::new(false), AtomicBool::new(true));
        // The simulation sets itself up without turns.
        Arc::new(Self { inner: InMemory::new(), turn, through })
    }
    /// Returns whether a task gave up its turn since the last call.
    pub fn took_a_turn(&self) -> bool {
        self.turn.swap(false, Ordering::SeqCst)
    }
    /// Sets whether requests run through without taking turns.
    pub fn run_through(&self, yes: bool) {
        self.through.store(yes, Ordering::SeqCst);
    }
    async fn turn(&self) {
        if self.through.load(Ordering::SeqCst) {
            return;
        }
        let mut waited = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut waited, true) {
                return Poll::Ready(());
            }
            self.turn.store(true, Ordering::SeqCst);
            // Tasks that make several requests concurrently poll only those that were woken.
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

impl fmt::Display for Stepping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stepping")
    }
}

#[async_trait]
impl ObjectStore for Stepping {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.turn().await;
        let result = self.inner.put_opts(location, payload, options).await;
        self.turn().await;
        result
    }
    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.turn().await;
        let result = self.inner.get_opts(location, options).await;
        self.turn().await;
        result
    }
    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix).boxed()
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
