//! Stores the addresses and the ends of an attempt's processes in its folder: `nodes/<rank>.json` and
//! `nodes/<rank>.end.json`. Each file is written once.

use crate::attempts::encode;
use crate::connection::CreateOutcome;
use crate::layout;
use crate::store::Store;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::peers::{NodeAddress, NodeEnd};
use trainyard_core::{AttemptNumber, Result, RunId, StageKey};

impl Store {
    /// Publishes the address of a process of an attempt: `Ours`, or the bytes of another process of this rank.
    pub async fn put_address(&self, spec: &AttemptSpec, address: &NodeAddress) -> Result<CreateOutcome> {
        let path = format!("{}.json", node(&spec.run, &spec.stage, spec.attempt, address.rank));
        self.create(&path, encode(&path, address)?).await
    }
    /// Returns the address of a process of an attempt; `None` before it is published.
    pub async fn address(
        &self,
        run: &RunId,
        stage: &StageKey,
        attempt: AttemptNumber,
        rank: u32,
    ) -> Result<Option<NodeAddress>> {
        self.json(&format!("{}.json", node(run, stage, attempt, rank))).await
    }
    /// Records how a process other than the first of its attempt ended. The first record counts.
    pub async fn put_node_end(&self, spec: &AttemptSpec, end: &NodeEnd) -> Result<()> {
        let path = format!("{}.end.json", node(&spec.run, &spec.stage, spec.attempt, end.rank));
        self.create(&path, encode(&path, end)?).await.map(|_| ())
    }
    /// Returns how a process of this attempt ended; `None` before its end.
    pub async fn node_end(&self, spec: &AttemptSpec, rank: u32) -> Result<Option<NodeEnd>> {
        self.json(&format!("{}.end.json", node(&spec.run, &spec.stage, spec.attempt, rank))).await
    }
}

fn node(run: &RunId, stage: &StageKey, attempt: AttemptNumber, rank: u32) -> String {
    format!("{}/nodes/{rank}", layout::attempt(run, stage, attempt))
}
