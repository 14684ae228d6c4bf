//! Who computes a stage: of runs that come to one stage at the same moment, one computes it and the others wait for its
//! result.
//!
//! Before an attempt is submitted, its run puts a claim for the generation that it is about to make, numbered and
//! create-only; the last one counts. It holds as long as its run shows signs of life (a journal that grows, or the
//! attempt's heartbeat), until its attempt ends without a result, and not while that waits for a machine for long: a
//! full pool of one run must not keep another run from its own. A claim saves work and decides nothing: whoever cannot
//! put or judge one computes.

use crate::context::RunContext;
use crate::lookup::look_up;
use crate::process::Processes;
use crate::resume::SILENCE;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::AbortHandle;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::event::{Event, Record};
use trainyard_core::{AttemptNumber, Clock, Digest, Error, Result, RunId, StageKey};
use trainyard_engine::{Looked, NodeId};
use trainyard_store::{Created, Store, layout};

/// How long an attempt may wait for its machine before others may compute its stage.
const WAIT: Duration = Duration::from_secs(60);
/// Time of a look after which the store must have been away.
const SLOW: Duration = Duration::from_secs(5);

/// Who computes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    run: RunId,
    stage: StageKey,
    attempt: AttemptNumber,
    /// Name of the run's writer.
    writer: String,
}

/// Where a claim stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    digest: Digest,
    generation: u32,
    number: u32,
}

/// The claims of one run, and what it has seen of those of others.
pub(crate) struct Claims {
    /// Waits for nobody.
    store: Store,
    clock: Arc<dyn Clock>,
    processes: Arc<dyn Processes>,
    run: RunId,
    writer: String,
    alone: bool,
    held: Mutex<HashMap<NodeId, Held>>,
    seen: Mutex<HashMap<Place, Seen>>,
}

/// A claim of this run.
struct Held {
    place: Place,
    claim: Claim,
    /// Gives it up if its attempt waits for long.
    timer: Option<AbortHandle>,
}

/// The last signs of life of whoever holds a claim.
#[derive(Clone, Copy)]
struct Seen {
    end: u64,
    beat: Option<u64>,
    since: Duration,
}

impl Place {
    fn path(&self) -> String {
        layout::computing(&self.digest, self.generation, self.number)
    }
    fn over(&self) -> String {
        layout::computing_over(&self.digest, self.generation, self.number)
    }
    fn next(&self) -> Self {
        Self { number: self.number + 1, ..self.clone() }
    }
}

impl Claim {
    fn words(&self) -> String {
        let Self { run, stage, attempt, .. } = self;
        format!("run {run} computes it now (attempt {attempt} of `{stage}`); its result will be taken")
    }
}

impl Claims {
    /// `alone`: it waits for nobody, as whoever asks for a new run beside a living one wants.
    pub fn new(context: &RunContext, run: &RunId, writer: &str, alone: bool) -> Self {
        Self {
            alone,
            store: context.store.with_outage(Duration::ZERO),
            clock: context.clock.clone(),
            processes: context.processes.clone(),
            run: run.clone(),
            writer: writer.to_string(),
            held: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// Whether an attempt of `node` should not begin now, because another run computes this generation. None is made
    /// for others. A store that does not answer keeps nobody from working.
    pub async fn stands_back(&self, node: NodeId, spec: &AttemptSpec, generation: Option<u32>) -> bool {
        let Some(generation) = generation else { return false };
        self.take(node, spec, generation).await.map(|ours| !ours).unwrap_or_else(|error| {
            tracing::info!(%error, "the stage is computed without a claim");
            false
        })
    }

    /// Claims a generation, unless another run has it.
    async fn take(&self, node: NodeId, spec: &AttemptSpec, generation: u32) -> Result<bool> {
        let claim = Claim {
            run: self.run.clone(),
            stage: spec.stage.clone(),
            attempt: spec.attempt,
            writer: self.writer.clone(),
        };
        let mut place = Place { digest: spec.stage_digest.clone(), generation, number: 0 };
        while !self.put(&place, &claim).await? {
            let (last, theirs) = self.last(place).await?;
            if self.holds(&last, theirs.as_ref()).await? {
                return Ok(false);
            }
            place = last.next();
        }
        self.held().insert(node, Held { place, claim, timer: None });
        Ok(true)
    }

    /// What the store has under a digest, and else who computes this generation of it.
    pub async fn look_up(&self, store: &Store, digest: &Digest, generation: u32) -> Result<Looked> {
        let looked = look_up(store, digest).await?;
        if matches!(looked, Looked::Hit(_)) {
            return Ok(looked);
        }
        // Whoever cannot be asked keeps nobody from working.
        let others = self.others(digest, generation).await.unwrap_or_default();
        Ok(others.map_or(looked, |why| Looked::Elsewhere { why }))
    }

    /// Who computes a generation now, in words; none if nobody does.
    async fn others(&self, digest: &Digest, generation: u32) -> Result<Option<String>> {
        let first = Place { digest: digest.clone(), generation, number: 0 };
        if self.store.get(&first.path()).await?.is_none() {
            return Ok(None);
        }
        let (last, claim) = self.last(first).await?;
        let holds = self.holds(&last, claim.as_ref()).await?;
        Ok(claim.filter(|_| holds).map(|claim| claim.words()))
    }

    /// The attempt of `node` ended: `result` tells whether it left a result, which will be published.
    pub fn ended(&self, node: NodeId, result: bool) {
        let held = self.held().remove(&node);
        let Some(held) = held else { return };
        if let Some(timer) = &held.timer {
            timer.abort();
        }
        if !result {
            let store = self.store.clone();
            // In the background: nothing of this run waits for it.
            tokio::spawn(async move { give_up(&store, &held.place).await });
        }
    }

    /// The attempt of `node` waits for its machine, or does not any more.
    pub fn waits(self: &Arc<Self>, node: NodeId, waits: bool) {
        let mut held = self.held();
        let Some(Held { place, claim, timer }) = held.get_mut(&node) else { return };
        if waits && timer.is_none() {
            let (store, place) = (self.store.clone(), place.clone());
            let waiting = async move {
                tokio::time::sleep(WAIT).await;
                give_up(&store, &place).await;
            };
            *timer = Some(tokio::spawn(waiting).abort_handle());
        } else if !waits && let Some(timer) = timer.take() {
            if timer.is_finished() {
                // Somebody else may have begun meanwhile; then both compute.
                let (this, again, claim) = (self.clone(), place.next(), claim.clone());
                *place = again.clone();
                tokio::spawn(async move {
                    if let Err(error) = this.put(&again, &claim).await {
                        tracing::info!(%error, "the claim on a stage was not renewed");
                    }
                });
            }
            timer.abort();
        }
    }

    /// Whether this claim stands there now.
    async fn put(&self, place: &Place, claim: &Claim) -> Result<bool> {
        let bytes = serde_json::to_vec(claim).map_err(|e| Error::bug(format!("a claim has no JSON form: {e}")))?;
        Ok(self.store.create(&place.path(), bytes.into()).await? == Created::Ours)
    }

    /// The last claim from this one on; one that cannot be read is nobody's.
    async fn last(&self, mut place: Place) -> Result<(Place, Option<Claim>)> {
        let mut claim = None;
        while let Some(bytes) = self.store.get(&place.path()).await? {
            claim = serde_json::from_slice(&bytes).ok();
            place = place.next();
        }
        Ok((Place { number: place.number.saturating_sub(1), ..place }, claim))
    }

    /// Whether a claim of another run keeps this one from computing.
    async fn holds(&self, place: &Place, claim: Option<&Claim>) -> Result<bool> {
        // An earlier attempt of this run is over: attempts of one stage follow each other.
        let Some(claim) = claim.filter(|claim| !self.alone && claim.run != self.run) else { return Ok(false) };
        if self.store.get(&place.over()).await?.is_some() {
            return Ok(false);
        }
        self.is_alive(place, claim).await
    }

    /// Whether the run of a claim shows signs of life. As where runs are taken over, silence is what this process has
    /// seen itself.
    async fn is_alive(&self, place: &Place, claim: &Claim) -> Result<bool> {
        let asked = self.clock.monotonic();
        let before = self.seen().get(place).copied();
        let end = self.store.journal_end(&claim.run, before.map_or(0, |seen| seen.end)).await?;
        let beat = self.store.heartbeat(&claim.run, &claim.stage, claim.attempt).await.ok().flatten().map(|b| b.beat);
        let over = self.is_over(claim, end, beat.is_some()).await?;
        let now = self.clock.monotonic();
        let moves = before.is_none_or(|seen| seen.end != end || seen.beat != beat);
        let since = match before {
            Some(seen) if !moves && now.saturating_sub(asked) < SLOW => seen.since,
            _ => now,
        };
        self.seen().insert(place.clone(), Seen { end, beat, since });
        Ok(!over && now.saturating_sub(since) < SILENCE)
    }

    /// Whether a run is over, or its last writer is a process of this host that is gone, and its attempt with it.
    async fn is_over(&self, claim: &Claim, end: u64, outlives: bool) -> Result<bool> {
        let Some(last) = end.checked_sub(1) else { return Ok(false) };
        let Some(batch) = self.store.journal_batch(&claim.run, last).await? else { return Ok(false) };
        let ends = |event| matches!(Record::from_value(event), Ok(Record { event: Event::RunFinished { .. }, .. }));
        let is_dead = |name: &str| self.processes.is_alive(name) == Some(false);
        Ok(batch.events.iter().any(ends) || (!outlives && is_dead(&batch.header.writer)))
    }

    fn held(&self) -> MutexGuard<'_, HashMap<NodeId, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn seen(&self) -> MutexGuard<'_, HashMap<Place, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets others compute. Without it they wait until the run is over.
async fn give_up(store: &Store, place: &Place) {
    if let Err(error) = store.create(&place.over(), bytes::Bytes::from_static(b"{}\n")).await {
        tracing::info!(%error, "a claim on a stage was not given up");
    }
}
