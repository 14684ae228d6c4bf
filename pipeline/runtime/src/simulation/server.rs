//! Holds the objects of the simulated store, with the time of each write. The auditors check every change.

use super::audit::Ledger;
use super::process::Process;
use super::setting::Mutant;
use super::world::World;
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path as Name;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutResult, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub struct Server {
    objects: Arc<InMemory>,
    /// Last write of each name.
    written: Mutex<BTreeMap<String, (Duration, i64)>>,
    /// State of the online auditors.
    pub ledger: Mutex<Ledger>,
}

impl Default for Server {
    fn default() -> Self {
        Self { objects: Arc::new(InMemory::new()), written: Mutex::default(), ledger: Mutex::default() }
    }
}

impl Server {
    pub fn objects(&self) -> Arc<InMemory> {
        self.objects.clone()
    }
    /// Executes a write that has arrived.
    pub async fn put(
        &self,
        world: &World,
        process: &Process,
        name: &Name,
        bytes: Bytes,
        mode: PutMode,
    ) -> Result<PutResult> {
        let mode = if world.is(Mutant::StoreOverwrites) { PutMode::Overwrite } else { mode };
        let forgets = world.is(Mutant::StoreForgets) && world.draw("forgets").below(40) == 0;
        if forgets {
            return Ok(PutResult { e_tag: None, version: None, extensions: Default::default() });
        }
        let options = PutOptions { mode, ..PutOptions::default() };
        let put = self.objects.put_opts(name, bytes.clone().into(), options).await;
        world
            .trace
            .record(process.name(), format_args!("put {name}: {}", if put.is_ok() { "taken" } else { "refused" }));
        if put.is_ok() {
            let now = (world.time.now(), world.time.unix_millis());
            self.written.lock().unwrap().insert(name.to_string(), now);
            let found = self.ledger.lock().unwrap().put(process, name.as_ref(), &bytes);
            found.into_iter().for_each(|what| world.complain(what));
        }
        put
    }
    pub async fn delete(&self, world: &World, process: &Process, name: &Name) -> Result<()> {
        world.trace.record(process.name(), format_args!("delete {name}"));
        let found = self.ledger.lock().unwrap().delete(name.as_ref());
        found.into_iter().for_each(|what| world.complain(what));
        self.objects.delete(name).await
    }
    /// Lists objects, with the simulated time of the last write of each.
    pub async fn list(&self, prefix: Option<&Name>) -> Result<Vec<(ObjectMeta, Duration)>> {
        let found: Vec<ObjectMeta> = self.objects.list(prefix).try_collect().await?;
        let dated = |meta| {
            let meta = self.dated(meta);
            let at = self.written_at(meta.location.as_ref()).map_or(Duration::ZERO, |(at, _)| at);
            (meta, at)
        };
        Ok(found.into_iter().map(dated).collect())
    }
    /// Replaces the modification time by simulated time; `object_store` uses the machine's clock.
    pub fn dated(&self, meta: ObjectMeta) -> ObjectMeta {
        let millis = self.written_at(meta.location.as_ref()).map_or(0, |(_, millis)| millis.unsigned_abs());
        ObjectMeta { last_modified: (std::time::UNIX_EPOCH + Duration::from_millis(millis)).into(), ..meta }
    }
    fn written_at(&self, name: &str) -> Option<(Duration, i64)> {
        self.written.lock().unwrap().get(name).copied()
    }
}
