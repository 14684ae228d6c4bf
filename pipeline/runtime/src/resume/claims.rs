//! Stores claims on a plan as numbered create-only objects, each with a run and the process that begins it.
//!
//! If several commands start one plan at the same time, the one whose write takes the next number begins its run; the
//! others find its claim. A claim does not prove that its run is alive: the run's journal does, or before there is a
//! journal, the process that made the claim. A claim of a dead process therefore blocks the plan no longer than an
//! unfinished run with a dead writer does.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use trainyard_core::{Digest, Error, Result, RunId};
use trainyard_store::{CreateOutcome, Store, layout};

/// Run of a plan, and the process that begins it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunClaim {
    pub run: RunId,
    /// Name of the first writer of its journal.
    pub writer: String,
}

/// Returns the last claim of a plan, and the number of the next one. The claim is `None` if there is no claim, or if it
/// cannot be parsed.
///
/// A listing provides the starting number; from there, claims are read until one is missing.
pub(crate) async fn last(store: &Store, identity: &Digest) -> Result<(Option<RunClaim>, u64)> {
    let names = store.list_names(&layout::claims(identity)).await?;
    let numbers = names.iter().filter_map(|name| name.parse::<u64>().ok());
    let (mut claim, mut next) = (None, numbers.max().unwrap_or(0));
    while let Some(bytes) = store.get(&layout::claim(identity, next)).await? {
        claim = serde_json::from_slice(&bytes).ok();
        next += 1;
    }
    Ok((claim, next))
}

/// Creates a claim under a number; returns false if the number is taken.
pub(crate) async fn put(store: &Store, identity: &Digest, number: u64, claim: &RunClaim) -> Result<bool> {
    let bytes =
        serde_json::to_vec(claim).map_err(|e| Error::bug(format!("the claim of a run has no JSON form: {e}")))?;
    Ok(store.create(&layout::claim(identity, number), Bytes::from(bytes)).await? == CreateOutcome::Ours)
}
