//! Simulates the connection of one process to the store. Requests take time, and arrive twice or late; requests and
//! responses get lost. A process that has ended receives no response.

use super::process::Process;
use super::setting::Mutant;
use super::world::World;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::path::Path as Name;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use trainyard_core::chance::PhiloxRng;

/// Maximum age of an object that may be missing in a listing.
const YOUNG: Duration = Duration::from_secs(5);

/// Fate of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StoreRequestOutcome {
    Arrives,
    /// The request is not executed, and the error is ambiguous.
    LostRequest,
    /// The request is executed, and the error is ambiguous.
    LostAnswer,
    /// The request is executed, and its retry inside the connection fails because the name exists.
    Repeated,
    /// The error is returned at once, and the request is executed after this time.
    Late(Duration),
    /// The request is executed twice.
    Twice(Duration),
}

/// Connection of one process to the store.
#[derive(Clone)]
pub struct SimulatedConnection {
    world: Arc<World>,
    process: Arc<Process>,
}

impl SimulatedConnection {
    pub fn new(world: &Arc<World>, process: &Arc<Process>) -> Self {
        Self { world: world.clone(), process: process.clone() }
    }

    fn fate(&self, draw: &mut PhiloxRng) -> StoreRequestOutcome {
        let now = self.world.time.now();
        let concerns = |host: Option<u32>| host.is_none_or(|host| host == self.process.host % 3);
        let away = |outage: &super::setting::Outage| (outage.from..outage.to).contains(&now) && concerns(outage.host);
        if !self.world.is_calm() && self.world.setting.outages.iter().any(away) {
            self.world.trace.count("requests to a store that was away");
            return if draw.below(20) == 0 {
                StoreRequestOutcome::LostAnswer
            } else {
                StoreRequestOutcome::LostRequest
            };
        }
        if !self.world.goes_wrong(draw, self.world.setting.store_faults) {
            return StoreRequestOutcome::Arrives;
        }
        let later = Duration::from_millis(draw.below(20_000));
        let (fate, name) = match draw.below(6) {
            0 | 1 => (StoreRequestOutcome::LostRequest, "requests lost"),
            2 => (StoreRequestOutcome::LostAnswer, "answers lost"),
            3 => (StoreRequestOutcome::Repeated, "puts that succeeded and reported failure"),
            4 => (StoreRequestOutcome::Late(later), "puts that arrived late"),
            _ => (StoreRequestOutcome::Twice(later), "puts that arrived twice"),
        };
        self.world.trace.count(name);
        fate
    }

    /// Sleeps for the time of one direction.
    async fn travel(&self, draw: &mut PhiloxRng) {
        let slow = self.world.goes_wrong(draw, self.world.setting.store_faults);
        let millis = if slow { draw.below(9_000) } else { 1 + draw.below(15) };
        tokio::time::sleep(Duration::from_millis(millis)).await;
        self.process.goes_on().await;
    }

    /// Sends a write, which is executed even if this process ends first. The returned receiver gets the response.
    fn send(
        &self,
        name: &Name,
        bytes: &Bytes,
        mode: &PutMode,
        after: Duration,
    ) -> oneshot::Receiver<Result<PutResult>> {
        let (sender, receiver) = oneshot::channel();
        let (this, name, bytes, mode) = (self.clone(), name.clone(), bytes.clone(), mode.clone());
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            let put = this.world.server.put(&this.world, &this.process, &name, bytes, mode).await;
            // The receiver is dropped if the request was given up.
            let _ = sender.send(put);
        });
        receiver
    }

    async fn put(&self, name: &Name, bytes: Bytes, mode: PutMode) -> Result<PutResult> {
        let mut draw = self.world.draw("put");
        self.process.goes_on().await;
        let doom = if name.as_ref().contains("/journal/") { self.process.writes_journal() } else { None };
        if doom.is_some_and(|doom| !doom.after) {
            self.die("before a write to the journal").await;
        }
        self.travel(&mut draw).await;
        let fate = self.fate(&mut draw);
        if doom.is_some() {
            let _ = self.send(name, &bytes, &mode, Duration::ZERO).await;
            self.die("after a write to the journal").await;
        }
        let way = Duration::from_millis(1 + draw.below(10));
        let answer = match fate {
            StoreRequestOutcome::LostRequest => {
                self.travel(&mut draw).await;
                return Err(unclear());
            }
            StoreRequestOutcome::Late(after) => {
                drop(self.send(name, &bytes, &mode, after));
                self.travel(&mut draw).await;
                return Err(unclear());
            }
            StoreRequestOutcome::Twice(after) => {
                let first = self.send(name, &bytes, &mode, way);
                drop(self.send(name, &bytes, &mode, way + after));
                first.await
            }
            StoreRequestOutcome::Arrives | StoreRequestOutcome::LostAnswer | StoreRequestOutcome::Repeated => {
                self.send(name, &bytes, &mode, way).await
            }
        };
        self.travel(&mut draw).await;
        match (fate, answer) {
            (StoreRequestOutcome::LostAnswer, _) | (_, Err(_)) => Err(unclear()),
            (StoreRequestOutcome::Repeated, Ok(Ok(_))) if mode == PutMode::Create => {
                Err(Error::AlreadyExists { path: name.to_string(), source: "412 Precondition Failed".into() })
            }
            (_, Ok(Err(Error::AlreadyExists { .. }))) if self.world.is(Mutant::StoreLies) => {
                Ok(PutResult { e_tag: None, version: None, extensions: Default::default() })
            }
            (_, Ok(answer)) => answer,
        }
    }

    async fn die(&self, when: &str) {
        self.world.trace.record(self.process.name(), format_args!("dies {when}"));
        self.world.trace.count("engines killed at a write to the journal");
        self.process.end();
        self.process.goes_on().await;
    }

    /// Sends a read request; the caller simulates the way back.
    async fn send_read(&self, draw: &mut PhiloxRng) -> Result<()> {
        self.process.goes_on().await;
        self.travel(draw).await;
        match self.fate(draw) {
            StoreRequestOutcome::Arrives | StoreRequestOutcome::Twice(_) => Ok(()),
            StoreRequestOutcome::LostRequest
            | StoreRequestOutcome::LostAnswer
            | StoreRequestOutcome::Repeated
            | StoreRequestOutcome::Late(_) => {
                self.travel(draw).await;
                Err(unclear())
            }
        }
    }

    async fn listing(&self, prefix: Option<&Name>) -> Vec<Result<ObjectMeta>> {
        let mut draw = self.world.draw("list");
        if let Err(error) = self.send_read(&mut draw).await {
            return vec![Err(error)];
        }
        let now = self.world.time.now();
        let found = match self.world.server.list(prefix).await {
            Ok(found) => found,
            Err(error) => return vec![Err(error)],
        };
        let stale = self.world.setting.stale_lists && !self.world.is_calm();
        let of = found.len();
        let mut shown = Vec::new();
        for (meta, written) in found {
            let missing = stale && (now.saturating_sub(written) < YOUNG && draw.below(2) == 0 || draw.below(50) == 0);
            if !missing {
                shown.push(Ok(meta));
            }
        }
        if shown.len() < of {
            self.world.trace.count("listings that lacked something");
        }
        if self.world.goes_wrong(&mut draw, self.world.setting.store_faults) {
            self.world.trace.count("listings that broke off");
            shown.truncate(shown.len() / 2);
            shown.push(Err(unclear()));
        }
        self.travel(&mut draw).await;
        shown
    }
}

fn unclear() -> Error {
    Error::Generic { store: "simulated", source: "connection closed before the answer".into() }
}

impl fmt::Display for SimulatedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the wire of {}", self.process.name())
    }
}

impl fmt::Debug for SimulatedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[async_trait]
impl ObjectStore for SimulatedConnection {
    async fn put_opts(&self, location: &Name, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.put(location, payload.into(), options.mode).await
    }
    async fn put_multipart_opts(&self, _: &Name, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        // Simulated stages have no large files.
        Err(Error::NotImplemented { operation: "multipart".into(), implementer: "the simulation".into() })
    }
    async fn get_opts(&self, location: &Name, options: GetOptions) -> Result<GetResult> {
        let mut draw = self.world.draw("get");
        self.send_read(&mut draw).await?;
        if self.world.is(Mutant::EngineIsDeaf) && location.as_ref().contains("/cancel/") {
            return Err(Error::NotFound { path: location.to_string(), source: "hidden".into() });
        }
        let found = self.world.server.objects().get_opts(location, options).await;
        self.travel(&mut draw).await;
        let found = found?;
        let meta = self.world.server.dated(found.meta.clone());
        if !self.world.goes_wrong(&mut draw, self.world.setting.store_faults / 2) {
            return Ok(GetResult { meta, ..found });
        }
        self.world.trace.count("reads that broke off");
        let (range, attributes, extensions) = (found.range.clone(), found.attributes.clone(), found.extensions.clone());
        let bytes = found.bytes().await?;
        let begin = bytes.slice(..bytes.len() / 2);
        let payload = GetResultPayload::Stream(stream::iter([Ok(begin), Err(unclear())]).boxed());
        Ok(GetResult { payload, meta, range, attributes, extensions })
    }
    fn delete_stream(&self, locations: BoxStream<'static, Result<Name>>) -> BoxStream<'static, Result<Name>> {
        let this = self.clone();
        let delete = move |name: Result<Name>| {
            let this = this.clone();
            async move {
                let name = name?;
                this.send_read(&mut this.world.draw("delete")).await?;
                this.world.server.delete(&this.world, &this.process, &name).await?;
                Ok(name)
            }
        };
        locations.then(delete).boxed()
    }
    fn list(&self, prefix: Option<&Name>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (this, prefix) = (self.clone(), prefix.cloned());
        stream::once(async move { this.listing(prefix.as_ref()).await }).flat_map(stream::iter).boxed()
    }
    async fn list_with_delimiter(&self, prefix: Option<&Name>) -> Result<ListResult> {
        let (mut objects, mut folders) = (Vec::new(), BTreeSet::new());
        let root = Name::default();
        let prefix = prefix.unwrap_or(&root);
        for meta in self.listing(Some(prefix)).await {
            let meta = meta?;
            let rest: Vec<_> = meta.location.prefix_match(prefix).into_iter().flatten().collect();
            match rest.as_slice() {
                [] => {}
                [_] => objects.push(meta.clone()),
                [first, ..] => {
                    folders.insert(prefix.clone().join(first.clone()));
                }
            }
        }
        Ok(ListResult { objects, common_prefixes: folders.into_iter().collect(), extensions: Default::default() })
    }
    async fn copy_opts(&self, _: &Name, _: &Name, _: CopyOptions) -> Result<()> {
        Err(Error::NotImplemented { operation: "copy".into(), implementer: "the simulation".into() })
    }
}
