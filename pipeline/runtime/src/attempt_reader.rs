//! Reads the objects that an attempt without pipes writes to the store while it runs, and at its end.

use crate::context::RunContext;
use crate::retry::{RETRY_DELAYS, with_retries};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::{AttemptFailure, AttemptResult, AttemptSpec, Heartbeat};
use trainyard_core::{ErrorKind, Result};
use trainyard_store::Store;

/// Reader of one attempt's folder.
#[derive(Clone)]
pub(crate) struct AttemptReader {
    /// Store with retries, for the end of the attempt.
    store: Store,
    /// Store without retries: a failed read is harmless, and the next one comes soon.
    no_retry_store: Store,
    spec: Arc<AttemptSpec>,
}

/// Objects that the attempt left at its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct FinalObjects {
    pub result: Option<AttemptResult>,
    pub failure: Option<AttemptFailure>,
}

impl FinalObjects {
    pub fn is_present(&self) -> bool {
        self.result.is_some() || self.failure.is_some()
    }
    /// Returns whether the attempt stopped because it seemed unwanted. An engine that resumes its run starts it again.
    pub fn is_unwanted(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.unwanted || failure.error.kind == ErrorKind::Cancelled)
    }
}

/// Result of one read.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttemptSnapshot {
    pub heartbeat: Option<Heartbeat>,
    /// Read only when the heartbeat has not changed.
    pub final_objects: FinalObjects,
}

impl AttemptReader {
    pub fn new(context: &RunContext, spec: &Arc<AttemptSpec>) -> Self {
        let store = context.store.clone();
        Self { no_retry_store: store.with_outage(Duration::ZERO), store, spec: spec.clone() }
    }

    /// Reads the folder once; `beat` is the counter of the last known heartbeat. An attempt with a new heartbeat has
    /// not ended, so its final objects are read only if the heartbeat is unchanged.
    pub async fn read(&self, beat: Option<u64>) -> Result<AttemptSnapshot> {
        let heartbeat = heartbeat(&self.no_retry_store, &self.spec).await?;
        if heartbeat.as_ref().is_some_and(|heartbeat| Some(heartbeat.beat) != beat) {
            return Ok(AttemptSnapshot { heartbeat, ..AttemptSnapshot::default() });
        }
        let final_objects = read_final_objects(&self.no_retry_store, &self.spec).await?;
        Ok(AttemptSnapshot { heartbeat, final_objects })
    }

    /// Returns the last heartbeat of an attempt that has ended; `None` if it is missing or unreadable, or if the store
    /// does not respond.
    pub async fn last_heartbeat(&self) -> Option<Heartbeat> {
        heartbeat(&self.no_retry_store, &self.spec).await.ok().flatten()
    }

    /// Returns the objects that the attempt left; waits for an unavailable store.
    pub async fn final_objects(&self) -> Result<FinalObjects> {
        with_retries(&self.store, &RETRY_DELAYS, || read_final_objects(&self.store, &self.spec)).await
    }
}

async fn heartbeat(store: &Store, spec: &AttemptSpec) -> Result<Option<Heartbeat>> {
    match store.heartbeat(&spec.run, &spec.stage, spec.attempt).await {
        // A heartbeat only shows that the attempt is alive, so an unreadable one counts as missing.
        Err(error) if error.kind == ErrorKind::Data => Ok(None),
        result => result,
    }
}

async fn read_final_objects(store: &Store, spec: &AttemptSpec) -> Result<FinalObjects> {
    let result = store.result(&spec.run, &spec.stage, spec.attempt).await?;
    let failure = match result {
        Some(_) => None,
        None => store.failure(&spec.run, &spec.stage, spec.attempt).await?,
    };
    Ok(FinalObjects { result, failure })
}
