//! Who started a plan: numbered objects that are created once, each naming a run and the process that begins it.
//!
//! Of commands that start one plan at the same moment, the one whose put takes the next number begins its run; the
//! others find its claim. A claim does not say that its run goes on: the run's journal does, and before there is one
//! the process that made the claim. So a claim outlives its owner no longer than a run does.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use trainyard_core::{Digest, Error, Result, RunId};
use trainyard_store::{Created, Store, layout};

/// A run of a plan, and who begins it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub run: RunId,
    /// Name of the first writer of its journal.
    pub writer: String,
}

/// The last claim of a plan; none if there is none, or if it cannot be read. Also the number of the next one.
///
/// A listing says where to begin; the last one is the one behind which a read finds nothing.
pub(crate) async fn last(store: &Store, identity: &Digest) -> Result<(Option<Claim>, u64)> {
    let names = store.list_names(&layout::claims(identity)).await?;
    let numbers = names.iter().filter_map(|name| name.parse::<u64>().ok());
    let (mut claim, mut next) = (None, numbers.max().unwrap_or(0));
    while let Some(bytes) = store.get(&layout::claim(identity, next)).await? {
        claim = serde_json::from_slice(&bytes).ok();
        next += 1;
    }
    Ok((claim, next))
}

/// Puts a claim under a number; whether it was the first there.
pub(crate) async fn put(store: &Store, identity: &Digest, number: u64, claim: &Claim) -> Result<bool> {
    let bytes =
        serde_json::to_vec(claim).map_err(|e| Error::bug(format!("the claim of a run has no JSON form: {e}")))?;
    Ok(store.create(&layout::claim(identity, number), Bytes::from(bytes)).await? == Created::Ours)
}
