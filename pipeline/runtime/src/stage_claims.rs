//! Claims stages, so that of several runs that reach one stage at the same time, one computes it and the others wait
//! for its result.
//!
//! Before a run submits an attempt, it creates a claim object for the generation that it is about to compute; claims
//! are numbered and create-only, and the last one counts. A claim is valid as long as its run is alive (its journal
//! grows, or the attempt sends heartbeats), until its attempt ends without a result. The run releases it if the attempt
//! waits long for a machine: a full pool of one run must not block another run. Claims are only an optimization: a run
//! that cannot create or check a claim computes the stage.

use crate::context::RunContext;
use crate::lookup::look_up;
use crate::process::MachineProcesses;
use crate::resume::SILENCE;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::AbortHandle;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::event::{Event, EventRecord};
use trainyard_core::{AttemptNumber, Clock, Digest, Error, Result, RunId, StageKey};
use trainyard_engine::{LookupResult, NodeId};
use trainyard_store::{CreateOutcome, Store, layout};

/// How long an attempt may wait for its machine before other runs may compute its stage.
const WAIT: Duration = Duration::from_secs(60);
/// Duration of a read after which the store counts as unavailable.
const SLOW: Duration = Duration::from_secs(5);

/// Attempt that computes a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StageClaim {
    run: RunId,
    stage: StageKey,
    attempt: AttemptNumber,
    /// Name of the run's writer.
    writer: String,
}

/// Location of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ClaimLocation {
    digest: Digest,
    generation: u32,
    number: u32,
}

/// Claims of one run, and its observations of other runs' claims.
pub(crate) struct StageClaims {
    /// Store without retries.
    store: Store,
    clock: Arc<dyn Clock>,
    processes: Arc<dyn MachineProcesses>,
    run: RunId,
    writer: String,
    ignore_others: bool,
    held: Mutex<HashMap<NodeId, HeldClaim>>,
    activity: Mutex<HashMap<ClaimLocation, HolderActivity>>,
}

/// Claim of this run.
struct HeldClaim {
    location: ClaimLocation,
    claim: StageClaim,
    /// Timer that releases the claim if its attempt waits long.
    timer: Option<AbortHandle>,
}

/// Last observed end of the journal and heartbeat of a claim's holder, and the time since which both are unchanged.
#[derive(Clone, Copy)]
struct HolderActivity {
    end: u64,
    beat: Option<u64>,
    since: Duration,
}

impl ClaimLocation {
    fn path(&self) -> String {
        layout::computing(&self.digest, self.generation, self.number)
    }
    fn release_path(&self) -> String {
        layout::computing_over(&self.digest, self.generation, self.number)
    }
    fn next(&self) -> Self {
        Self { number: self.number + 1, ..self.clone() }
    }
}

impl StageClaim {
    fn describe(&self) -> String {
        let Self { run, stage, attempt, .. } = self;
        format!("run {run} is computing this stage (attempt {attempt} of `{stage}`); its result will be used")
    }
}

impl StageClaims {
    /// Creates the claims of a run. With `ignore_others`, the run ignores the claims of others, as requested for a new
    /// run in parallel to a live one.
    pub fn new(context: &RunContext, run: &RunId, writer: &str, ignore_others: bool) -> Self {
        Self {
            ignore_others,
            store: context.store.with_outage(Duration::ZERO),
            clock: context.clock.clone(),
            processes: context.processes.clone(),
            run: run.clone(),
            writer: writer.to_string(),
            held: Mutex::default(),
            activity: Mutex::default(),
        }
    }

    /// Returns whether an attempt of `node` must not begin now, because another run computes this generation. Without a
    /// generation there is no claim. An unavailable store blocks no attempt.
    pub async fn must_wait(&self, node: NodeId, spec: &AttemptSpec, generation: Option<u32>) -> bool {
        let Some(generation) = generation else { return false };
        self.take(node, spec, generation).await.map(|ours| !ours).unwrap_or_else(|error| {
            tracing::info!(%error, "cannot claim the stage, computing it without a claim");
            false
        })
    }

    /// Claims a generation for an attempt of `node`. Returns false if another run holds it.
    async fn take(&self, node: NodeId, spec: &AttemptSpec, generation: u32) -> Result<bool> {
        let claim = StageClaim {
            run: self.run.clone(),
            stage: spec.stage.clone(),
            attempt: spec.attempt,
            writer: self.writer.clone(),
        };
        let mut location = ClaimLocation { digest: spec.stage_digest.clone(), generation, number: 0 };
        while !self.put(&location, &claim).await? {
            let (last, theirs) = self.last(location).await?;
            if self.blocks(&last, theirs.as_ref()).await? {
                return Ok(false);
            }
            location = last.next();
        }
        self.held().insert(node, HeldClaim { location, claim, timer: None });
        Ok(true)
    }

    /// Looks up a digest in the store. Without a hit, returns [`LookupResult::InOtherRun`] if another run computes this
    /// generation.
    pub async fn look_up(&self, store: &Store, digest: &Digest, generation: u32) -> Result<LookupResult> {
        let result = look_up(store, digest).await?;
        if matches!(result, LookupResult::Hit(_)) {
            return Ok(result);
        }
        // An unreadable claim blocks no run.
        let competing_run = self.competing_run(digest, generation).await.unwrap_or_default();
        Ok(competing_run.map_or(result, |why| LookupResult::InOtherRun { why }))
    }

    /// Describes which run computes a generation now; returns `None` if there is no such run.
    async fn competing_run(&self, digest: &Digest, generation: u32) -> Result<Option<String>> {
        let first = ClaimLocation { digest: digest.clone(), generation, number: 0 };
        if self.store.get(&first.path()).await?.is_none() {
            return Ok(None);
        }
        let (last, claim) = self.last(first).await?;
        let holds = self.blocks(&last, claim.as_ref()).await?;
        Ok(claim.filter(|_| holds).map(|claim| claim.describe()))
    }

    /// Records the end of the attempt of `node`, and releases its claim in the background unless it left a `result`,
    /// which will be published.
    pub fn ended(&self, node: NodeId, result: bool) {
        let held = self.held().remove(&node);
        let Some(held) = held else { return };
        if let Some(timer) = &held.timer {
            timer.abort();
        }
        if !result {
            let store = self.store.clone();
            // This run does not depend on the release, so it does not wait for it.
            tokio::spawn(async move { release(&store, &held.location).await });
        }
    }

    /// Records whether the attempt of `node` waits for its machine. A claim whose attempt waits for [`WAIT`] is
    /// released, and claimed again under the next number when the wait ends.
    pub fn waits(self: &Arc<Self>, node: NodeId, waits: bool) {
        let mut held = self.held();
        let Some(HeldClaim { location, claim, timer }) = held.get_mut(&node) else { return };
        if waits && timer.is_none() {
            let (store, location) = (self.store.clone(), location.clone());
            let waiting = async move {
                tokio::time::sleep(WAIT).await;
                release(&store, &location).await;
            };
            *timer = Some(tokio::spawn(waiting).abort_handle());
        } else if !waits && let Some(timer) = timer.take() {
            if timer.is_finished() {
                // Another run may have begun meanwhile; then both compute.
                let (this, next, claim) = (self.clone(), location.next(), claim.clone());
                *location = next.clone();
                tokio::spawn(async move {
                    if let Err(error) = this.put(&next, &claim).await {
                        tracing::info!(%error, "cannot renew the claim on a stage");
                    }
                });
            }
            timer.abort();
        }
    }

    /// Creates a claim; returns whether it is ours.
    async fn put(&self, location: &ClaimLocation, claim: &StageClaim) -> Result<bool> {
        let bytes = serde_json::to_vec(claim).map_err(|e| Error::bug(format!("a claim has no JSON form: {e}")))?;
        Ok(self.store.create(&location.path(), bytes.into()).await? == CreateOutcome::Ours)
    }

    /// Returns the last claim at or after `location`, and its location; the claim is `None` if it is missing or cannot
    /// be parsed.
    async fn last(&self, mut location: ClaimLocation) -> Result<(ClaimLocation, Option<StageClaim>)> {
        let mut claim = None;
        while let Some(bytes) = self.store.get(&location.path()).await? {
            claim = serde_json::from_slice(&bytes).ok();
            location = location.next();
        }
        Ok((ClaimLocation { number: location.number.saturating_sub(1), ..location }, claim))
    }

    /// Returns whether a claim of another run blocks this one.
    async fn blocks(&self, location: &ClaimLocation, claim: Option<&StageClaim>) -> Result<bool> {
        // An earlier attempt of this run is over: attempts of one stage are sequential.
        let Some(claim) = claim.filter(|claim| !self.ignore_others && claim.run != self.run) else { return Ok(false) };
        if self.store.get(&location.release_path()).await?.is_some() {
            return Ok(false);
        }
        self.is_alive(location, claim).await
    }

    /// Returns whether the run of a claim is alive: it is not over, and its journal or the attempt's heartbeat changed
    /// within [`SILENCE`]. This process measures silence by its own clock, as for takeovers.
    async fn is_alive(&self, location: &ClaimLocation, claim: &StageClaim) -> Result<bool> {
        let requested_at = self.clock.monotonic();
        let previous = self.activity().get(location).copied();
        let end = self.store.journal_end(&claim.run, previous.map_or(0, |last| last.end)).await?;
        let beat = self.store.heartbeat(&claim.run, &claim.stage, claim.attempt).await.ok().flatten().map(|b| b.beat);
        let over = self.is_over(claim, end, beat.is_some()).await?;
        let now = self.clock.monotonic();
        let active = previous.is_none_or(|last| last.end != end || last.beat != beat);
        let since = match previous {
            Some(last) if !active && now.saturating_sub(requested_at) < SLOW => last.since,
            _ => now,
        };
        self.activity().insert(location.clone(), HolderActivity { end, beat, since });
        Ok(!over && now.saturating_sub(since) < SILENCE)
    }

    /// Returns whether the claim's run is over: it has finished, or its last writer is a dead process of this host.
    /// With `outlives` (the attempt itself stores heartbeats), a dead writer does not count, because the attempt may
    /// continue.
    async fn is_over(&self, claim: &StageClaim, end: u64, outlives: bool) -> Result<bool> {
        let Some(last) = end.checked_sub(1) else { return Ok(false) };
        let Some(batch) = self.store.journal_batch(&claim.run, last).await? else { return Ok(false) };
        let ends =
            |event| matches!(EventRecord::from_value(event), Ok(EventRecord { event: Event::RunFinished { .. }, .. }));
        let is_dead = |name: &str| self.processes.is_alive(name) == Some(false);
        Ok(batch.events.iter().any(ends) || (!outlives && is_dead(&batch.header.writer)))
    }

    fn held(&self) -> MutexGuard<'_, HashMap<NodeId, HeldClaim>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn activity(&self) -> MutexGuard<'_, HashMap<ClaimLocation, HolderActivity>> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Releases a claim by creating a second object. If the write fails, other runs wait until the run is over or silent.
async fn release(store: &Store, location: &ClaimLocation) {
    if let Err(error) = store.create(&location.release_path(), bytes::Bytes::from_static(b"{}\n")).await {
        tracing::info!(%error, "cannot release the claim on a stage");
    }
}
