//! What an attempt without pipes leaves in the store while it runs, and at its end.

use crate::context::RunContext;
use crate::patience::{WAITS, patiently};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::{AttemptFailure, AttemptResult, AttemptSpec, Heartbeat};
use trainyard_core::{ErrorKind, Result};
use trainyard_store::Store;

/// Looks at the folder of one attempt.
#[derive(Clone)]
pub(crate) struct Follow {
    /// Waits as long as the store may be away; for the end of the attempt.
    store: Store,
    /// Waits for nobody: a look that fails is no harm, and the next one comes soon.
    impatient: Store,
    spec: Arc<AttemptSpec>,
}

/// What the attempt left at its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Left {
    pub result: Option<AttemptResult>,
    pub failure: Option<AttemptFailure>,
}

impl Left {
    pub fn is_something(&self) -> bool {
        self.result.is_some() || self.failure.is_some()
    }
    /// Whether it stopped because nobody seemed to want it. Whoever goes on with its run wants it after all.
    pub fn is_unwanted(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.unwanted || failure.error.kind == ErrorKind::Cancelled)
    }
}

/// What one look found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    pub heartbeat: Option<Heartbeat>,
    /// Asked for only when the heartbeat stands still.
    pub left: Left,
}

impl Follow {
    pub fn new(context: &RunContext, spec: &Arc<AttemptSpec>) -> Self {
        let store = context.store.clone();
        Self { impatient: store.with_outage(Duration::ZERO), store, spec: spec.clone() }
    }

    /// One look; `beat` is the last heartbeat that was seen. An attempt that beats has not ended, so its end is looked
    /// for only while it does not.
    pub async fn look(&self, beat: Option<u64>) -> Result<Found> {
        let heartbeat = heartbeat(&self.impatient, &self.spec).await?;
        if heartbeat.as_ref().is_some_and(|heartbeat| Some(heartbeat.beat) != beat) {
            return Ok(Found { heartbeat, ..Found::default() });
        }
        let left = left(&self.impatient, &self.spec).await?;
        Ok(Found { heartbeat, left })
    }

    /// The last heartbeat of an attempt that is over, if the store answers.
    pub async fn last_heartbeat(&self) -> Option<Heartbeat> {
        heartbeat(&self.impatient, &self.spec).await.ok().flatten()
    }

    /// What the attempt left; waits for a store that is away.
    pub async fn left(&self) -> Result<Left> {
        patiently(&self.store, &WAITS, || left(&self.store, &self.spec)).await
    }
}

async fn heartbeat(store: &Store, spec: &AttemptSpec) -> Result<Option<Heartbeat>> {
    match store.heartbeat(&spec.run, &spec.stage, spec.attempt).await {
        // It decides nothing: one that cannot be read is no sign of life, and no more than that.
        Err(error) if error.kind == ErrorKind::Data => Ok(None),
        answer => answer,
    }
}

async fn left(store: &Store, spec: &AttemptSpec) -> Result<Left> {
    let result = store.result(&spec.run, &spec.stage, spec.attempt).await?;
    let failure = match result {
        Some(_) => None,
        None => store.failure(&spec.run, &spec.stage, spec.attempt).await?,
    };
    Ok(Left { result, failure })
}
