//! From ready to running: processes get a share of a pool, kinds that run inside this process one of a few places.

use crate::engine::Engine;
use crate::io::{Command, NodeId};
use crate::ledger::Ask;
use crate::node::Phase;
use crate::pool::Grant;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::Placement;
use trainyard_core::attempt::{AttemptResources, AttemptSpec};
use trainyard_core::event::Event;

/// How many kinds that take no share of a pool run at once.
const IN_PROCESS_PLACES: usize = 256;

impl Engine {
    /// Puts a node in line for its next attempt.
    pub(crate) fn enqueue(&mut self, node: NodeId) {
        if self.stopping.is_some() {
            return self.cancel_node(node);
        }
        let state = self.state_mut(node);
        state.phase = Phase::Queued;
        if state.plan.placement == Placement::InProcess {
            self.in_process.push_back(node);
            return;
        }
        let (id, height, asks) = (state.key.stage_id().to_string(), state.height, state.asks.as_ref().clone());
        self.queue.push(node, &id, height, asks);
        self.newly_queued.push(node);
    }

    /// Takes a queued node out of line. Those inside this process are passed over when their turn comes, since
    /// searching a long line for each would cost its square.
    pub(crate) fn dequeue(&mut self, node: NodeId) {
        let state = self.state(node);
        if state.plan.placement == Placement::InProcess {
            return;
        }
        let (id, height, asks) = (state.key.stage_id().to_string(), state.height, state.asks.clone());
        self.queue.remove(node, &id, height, &asks);
    }

    /// Launches everything that fits.
    pub(crate) fn admit(&mut self) {
        while self.in_process_running < IN_PROCESS_PLACES
            && let Some(node) = self.in_process.pop_front()
        {
            if self.state(node).phase == Phase::Queued {
                self.in_process_running += 1;
                self.launch(node, Grant::in_process());
            }
        }
        for (node, grant) in self.queue.admit(&mut self.ledger) {
            self.launch(node, grant);
        }
        let mut reasons: BTreeMap<Arc<Vec<Ask>>, String> = BTreeMap::new();
        for node in std::mem::take(&mut self.newly_queued) {
            if self.state(node).phase == Phase::Queued {
                let asks = self.state(node).asks.clone();
                let why = reasons.entry(asks).or_insert_with_key(|asks| self.ledger.why_not(asks)).clone();
                self.emit(Event::Queued { stage: self.key(node).clone(), why });
            }
        }
    }

    fn launch(&mut self, node: NodeId, grant: Grant) {
        let state = self.state_mut(node);
        let Some(prepared) = state.spec.clone() else { return };
        state.attempt += 1;
        state.tried += 1;
        let attempt = state.attempt;
        state.phase = Phase::Running { attempt };
        state.grant = Some(grant.clone());
        let share = grant.shares.first();
        let resources = AttemptResources {
            cpus: share.map_or(1, |s| s.cpus),
            memory: share.map_or(0, |s| s.memory),
            gpus: share.map_or_else(Vec::new, |s| s.gpus.clone()),
        };
        let spec = Arc::new(AttemptSpec { attempt, resources, ..prepared.as_ref().clone() });
        let stage = state.key.clone();
        self.emit(Event::AttemptStarted {
            stage,
            attempt,
            digest: spec.stage_digest.clone(),
            pool: grant.pool.clone(),
            grant: grant.summary(),
        });
        let claim = self.claim(node);
        self.command(Command::Launch { node, spec, grant, claim });
    }

    /// Returns the grant of an attempt that is over.
    pub(crate) fn release(&mut self, node: NodeId) {
        let Some(grant) = self.state_mut(node).grant.take() else { return };
        if grant.is_in_process() {
            self.in_process_running -= 1;
            return;
        }
        self.ledger.give_back(&grant);
        let id = self.key(node).stage_id().to_string();
        self.queue.ended(&id);
    }
}
