//! Where the processes of an attempt say how they are reached, and how they ended: `nodes/<rank>.json` and
//! `nodes/<rank>.end.json` in its folder, each written once.

use crate::attempts::encode;
use crate::connection::Created;
use crate::layout;
use crate::store::Store;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::peers::{NodeAddress, NodeEnd};
use trainyard_core::{AttemptNumber, Result, RunId, StageKey};

impl Store {
    /// Says how a process of an attempt is reached: `Ours`, or the bytes of another process of this rank.
    pub async fn put_address(&self, spec: &AttemptSpec, address: &NodeAddress) -> Result<Created> {
        let path = format!("{}.json", node(&spec.run, &spec.stage, spec.attempt, address.rank));
        self.create(&path, encode(&path, address)?).await
    }
    /// How a process of an attempt is reached; none before it has said so.
    pub async fn address(
        &self,
        run: &RunId,
        stage: &StageKey,
        attempt: AttemptNumber,
        rank: u32,
    ) -> Result<Option<NodeAddress>> {
        self.json(&format!("{}.json", node(run, stage, attempt, rank))).await
    }
    /// Says how a process of an attempt ended that is not its first. The first word counts.
    pub async fn put_node_end(&self, spec: &AttemptSpec, end: &NodeEnd) -> Result<()> {
        let path = format!("{}.end.json", node(&spec.run, &spec.stage, spec.attempt, end.rank));
        self.create(&path, encode(&path, end)?).await.map(|_| ())
    }
    /// How a process of this attempt ended; none before it has.
    pub async fn node_end(&self, spec: &AttemptSpec, rank: u32) -> Result<Option<NodeEnd>> {
        self.json(&format!("{}.end.json", node(&spec.run, &spec.stage, spec.attempt, rank))).await
    }
}

fn node(run: &RunId, stage: &StageKey, attempt: AttemptNumber, rank: u32) -> String {
    format!("{}/nodes/{rank}", layout::attempt(run, stage, attempt))
}
