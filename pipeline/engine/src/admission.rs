//! Admits ready stages. A stage that runs as a process needs a share of a pool; a stage that runs inside this process
//! needs one of a limited number of slots.

use crate::allocator::{GroupRequest, defer};
use crate::engine::RunEngine;
use crate::io::{Command, NodeId};
use crate::node::NodePhase;
use crate::pool::Grant;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::attempt::{AttemptResources, AttemptSpec};
use trainyard_core::event::{AttemptOutcome, Event};
use trainyard_core::peers::AttemptPeer;
use trainyard_core::units::format_duration;
use trainyard_core::{Error, Placement};

/// Maximum number of stages without a share of a pool that run at once.
const IN_PROCESS_SLOTS: usize = 256;

impl RunEngine {
    /// Queues a node for its next attempt. If the run is stopping, the node is cancelled; if a companion is not ready,
    /// the node waits for it.
    pub(crate) fn enqueue(&mut self, node: NodeId) {
        if self.stopping.is_some() {
            return self.cancel_node(node);
        }
        if !self.is_gathered(node) {
            self.state_mut(node).phase = NodePhase::AwaitingCompanions;
            return;
        }
        let now = self.now;
        let state = self.state_mut(node);
        state.phase = NodePhase::Queued;
        if state.plan.placement == Placement::InProcess {
            self.in_process.push_back(node);
            return;
        }
        let wait = state.plan.wait.map(|wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        state.due = wait.map(|wait| now.saturating_add(wait));
        let due = state.due;
        let (id, height, request) = (state.key.stage_id().to_string(), state.height, state.request.as_ref().clone());
        self.wakes.extend(due.map(|at| Reverse((at, node))));
        self.queue.push(node, &id, height, request);
        self.newly_queued.push(node);
    }

    /// Removes a node from the queue. Nodes of kinds that run inside this process are skipped when their turn comes,
    /// since searching a long queue for each would take quadratic time.
    pub(crate) fn dequeue(&mut self, node: NodeId) {
        let state = self.state(node);
        if state.plan.placement == Placement::InProcess {
            return;
        }
        let (id, height, request) = (state.key.stage_id().to_string(), state.height, state.request.clone());
        self.queue.remove(node, &id, height, &request);
    }

    /// Handles a queued node whose wait limit has passed. It counts as a try, so `retry` decides about the next.
    pub(crate) fn waited_too_long(&mut self, node: NodeId) {
        self.dequeue(node);
        let state = self.state(node);
        let limit = state.plan.wait.map(format_duration).unwrap_or_default();
        let why = self.allocator.unavailable_reasons(&state.request);
        let error = Error::retryable(format!("no machines within {limit}: {why}"))
            .help("raise `wait` under `resources`, or request less");
        self.state_mut(node).tries += 1;
        self.attempt_failed(node, error);
    }

    /// Launches every queued stage whose request fits now.
    pub(crate) fn admit(&mut self) {
        while self.in_process_running < IN_PROCESS_SLOTS
            && let Some(node) = self.in_process.pop_front()
        {
            if self.state(node).phase == NodePhase::Queued {
                self.in_process_running += 1;
                self.launch(node, Grant::in_process(), &[], None);
            }
        }
        for (node, grants) in self.queue.admit(&mut self.allocator) {
            self.launch_group(node, grants);
        }
        let mut reasons: BTreeMap<Arc<GroupRequest>, String> = BTreeMap::new();
        for node in std::mem::take(&mut self.newly_queued) {
            if self.state(node).phase == NodePhase::Queued {
                let request = self.state(node).request.clone();
                let why = reasons
                    .entry(request)
                    .or_insert_with_key(|request| self.allocator.unavailable_reasons(request))
                    .clone();
                self.emit(Event::Queued { stage: self.key(node).clone(), why });
            }
        }
    }

    /// Launches a stage and its companions, each with its grant.
    fn launch_group(&mut self, lead: NodeId, grants: Vec<Grant>) {
        let remaining_millis = self.state(lead).due.map(|due| u64::try_from(due - self.now).unwrap_or(0));
        let members = self.members(lead);
        let nodes: Vec<u32> =
            grants.iter().map(|grant| u32::try_from(grant.shares.len()).unwrap_or(u32::MAX)).collect();
        let peers = self.peers(&members, &nodes);
        let together: Arc<[Grant]> = if grants.len() > 1 { grants.clone().into() } else { Arc::default() };
        for (at, (member, grant)) in members.into_iter().zip(grants).enumerate() {
            let grant = Grant { together: together.clone(), at, ..grant };
            self.launch(member, grant, &peers, remaining_millis);
        }
    }

    fn launch(&mut self, node: NodeId, grant: Grant, peers: &[AttemptPeer], remaining_millis: Option<u64>) {
        let state = self.state_mut(node);
        let Some(prepared) = state.spec.clone() else { return };
        state.attempt += 1;
        state.tries += 1;
        state.broken = None;
        let attempt = state.attempt;
        state.phase = NodePhase::Running { attempt };
        state.grant = Some(grant.clone());
        let share = grant.shares.first();
        let resources = AttemptResources {
            cpus: share.map_or(1, |s| s.cpus),
            memory: share.map_or(0, |s| s.memory),
            gpus: share.map_or_else(Vec::new, |s| s.gpus.clone()),
        };
        let (peers, wait_millis) = (peers.to_vec(), remaining_millis);
        let spec = Arc::new(AttemptSpec { attempt, resources, peers, wait_millis, ..prepared.as_ref().clone() });
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

    /// Defers the placement of an attempt that was lost or reached a limit of time, so that the next attempt tries all
    /// others first: a pool whose machines are taken, lost or too slow is likely to stay so.
    pub(crate) fn defer_placement(&mut self, node: NodeId, outcome: AttemptOutcome) {
        if !matches!(outcome, AttemptOutcome::Lost | AttemptOutcome::TimedOut) {
            return;
        }
        let Some(Grant { pool, alternative, .. }) = self.state(node).grant.clone() else { return };
        let lead = self.state(node).lead.unwrap_or(node);
        let Some(at) = self.members(lead).iter().position(|member| *member == node) else { return };
        if let Some(alternatives) = Arc::make_mut(&mut self.state_mut(lead).request).get_mut(at) {
            defer(alternatives, alternative, &pool);
        }
    }

    /// Frees the grant of an attempt that has ended.
    pub(crate) fn release(&mut self, node: NodeId) {
        let Some(grant) = self.state_mut(node).grant.take() else { return };
        if grant.is_in_process() {
            self.in_process_running -= 1;
            return;
        }
        self.allocator.release(&grant);
        let id = self.key(node).stage_id().to_string();
        self.queue.ended(&id);
    }
}
