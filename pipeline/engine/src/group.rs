//! Runs groups: a stage (the lead) and its companions, which start together and end with the lead.
//!
//! The lead is the stage that the others name. Only the lead is looked up, admitted, published and retried. Its digest
//! includes those of the companions, since they affect its result. Companions are launched with the lead, all or none,
//! and are stopped when its attempt ends, which does not count as their failure. A companion that fails earlier ends
//! the attempt of the lead, and the lead's `retry` decides about the whole group.

use crate::engine::RunEngine;
use crate::io::{AttemptCompletion, Command, NodeId};
use crate::node::{NodeOutcome, NodePhase};
use std::sync::Arc;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::event::{AttemptOutcome, Event};
use trainyard_core::peers::AttemptPeer;
use trainyard_core::{AttemptNumber, Digest, Error};

impl RunEngine {
    /// Returns the lead and its companions.
    pub(crate) fn members(&self, lead: NodeId) -> Vec<NodeId> {
        [lead].into_iter().chain(self.state(lead).companions.iter().copied()).collect()
    }

    /// Returns whether all companions are prepared and have no attempt in progress.
    pub(crate) fn is_gathered(&self, lead: NodeId) -> bool {
        self.state(lead).companions.iter().all(|c| self.state(*c).phase == NodePhase::AwaitingLead)
    }

    /// Returns the digests of the companions, sorted.
    pub(crate) fn digests_beside(&self, lead: NodeId) -> Vec<Digest> {
        let mut digests: Vec<Digest> =
            self.state(lead).companions.iter().filter_map(|c| self.state(*c).digest.clone()).collect();
        digests.sort();
        digests
    }

    /// Returns the attempts that run at the same time in the next attempt of a group; empty for a stage alone on one
    /// machine.
    pub(crate) fn peers(&self, members: &[NodeId], nodes: &[u32]) -> Vec<AttemptPeer> {
        if members.len() == 1 && nodes.iter().all(|n| *n <= 1) {
            return Vec::new();
        }
        let peer = |(member, nodes): (&NodeId, &u32)| {
            let state = self.state(*member);
            AttemptPeer { stage: state.key.clone(), attempt: state.attempt + 1, nodes: *nodes }
        };
        members.iter().zip(nodes).map(peer).collect()
    }

    /// Handles a companion that is prepared or whose attempt is over: its lead may continue.
    pub(crate) fn companion_ready(&mut self, node: NodeId, lead: NodeId) {
        self.state_mut(node).phase = NodePhase::AwaitingLead;
        if self.state(lead).ending().is_some() {
            self.end_companion(node, lead);
        } else if self.state(lead).phase == NodePhase::AwaitingCompanions && self.is_gathered(lead) {
            match self.state(lead).digest {
                None => self.prepare(lead),
                Some(_) => self.enqueue(lead),
            }
        }
    }

    /// Handles the end of a companion's attempt. Unless it ended well, or with its lead, the attempt of the lead ends
    /// too.
    pub(crate) fn companion_ended(
        &mut self,
        node: NodeId,
        lead: NodeId,
        attempt: AttemptNumber,
        finished: Option<AttemptCompletion>,
    ) {
        let finished = finished.unwrap_or_else(|| {
            AttemptCompletion::failed(AttemptOutcome::Lost, Error::lost("the engine that ran the attempt has ended"))
        });
        let (stage, AttemptCompletion { outcome, error, .. }) = (self.key(node).clone(), finished);
        self.emit(Event::AttemptEnded { stage: stage.clone(), attempt, outcome, error: error.clone() });
        if let NodePhase::Running { attempt } | NodePhase::Recovering { attempt } = self.state(lead).phase
            && outcome != AttemptOutcome::Succeeded
            && self.stopping.is_none()
        {
            let error = error.unwrap_or_else(|| Error::lost("the attempt ended for an unknown reason"));
            let state = self.state_mut(lead);
            state.broken.get_or_insert(error.at(format!("`{stage}`, which runs beside it")));
            self.command(Command::Stop { node: lead, attempt, kill: false });
        }
        self.companion_ready(node, lead);
    }

    /// Returns the completion of the lead's attempt, with the error of the companion that ended it, if one did.
    pub(crate) fn group_outcome(&mut self, lead: NodeId, finished: AttemptCompletion) -> AttemptCompletion {
        match self.state_mut(lead).broken.take() {
            Some(error) if finished.outcome != AttemptOutcome::Succeeded => {
                AttemptCompletion::failed(AttemptOutcome::Failed, error)
            }
            _ => finished,
        }
    }

    /// Stops the companions after the lead's attempt is over.
    pub(crate) fn stop_companions(&mut self, lead: NodeId) {
        for node in self.state(lead).companions.clone() {
            if let NodePhase::Running { attempt } | NodePhase::Recovering { attempt } = self.state(node).phase {
                self.command(Command::Stop { node, attempt, kill: false });
            }
        }
    }

    /// Recovers the attempts of a lead's companions that an earlier engine left open.
    pub(crate) fn recover_companions(&mut self, lead: NodeId) {
        for node in self.state(lead).companions.clone() {
            let state = self.state_mut(node);
            let Some(open) = state.open.take().filter(|open| state.digest.as_ref() == Some(&open.digest)) else {
                continue;
            };
            let Some(spec) = &state.spec else { continue };
            let attempt = state.attempt;
            let spec = Arc::new(AttemptSpec { attempt, ..spec.as_ref().clone() });
            state.phase = NodePhase::Recovering { attempt };
            self.command(Command::Recover { node, spec, pool: open.pool, handle: open.handle });
        }
    }

    /// Handles the end of a stage: with a lead, its companions that do not run end too; a companion of a lead that has
    /// not ended dissolves the group.
    pub(crate) fn end_group_of(&mut self, node: NodeId) {
        self.stop_companions(node);
        for companion in self.state(node).companions.clone() {
            if matches!(self.state(companion).phase, NodePhase::AwaitingLead | NodePhase::Waiting) {
                self.end_companion(companion, node);
            }
        }
        let Some(lead) = self.state(node).lead.filter(|lead| self.state(*lead).ending().is_none()) else { return };
        let stage = self.key(lead).clone();
        match self.state(node).ending() {
            Some(NodeOutcome::Skipped) => {
                let why = format!("`{}`, which runs beside it, was skipped", self.key(node));
                self.skip(lead, why);
            }
            Some(NodeOutcome::Cancelled) => self.cancel_node(lead),
            Some(NodeOutcome::Deferred) => self.end(lead, NodeOutcome::Deferred),
            _ => {
                let by = self.key(node).clone();
                self.state_mut(lead).why = Some(format!("blocked by {by}"));
                self.emit(Event::Blocked { stage, by });
                self.end(lead, NodeOutcome::Blocked);
            }
        }
    }

    /// Ends a companion of a lead that has ended.
    fn end_companion(&mut self, node: NodeId, lead: NodeId) {
        let (stage, beside) = (self.key(node).clone(), self.key(lead).clone());
        let Some(ending) = self.state(lead).ending() else { return };
        match ending {
            NodeOutcome::Done => {
                self.emit(Event::Served { stage, beside });
                self.end(node, NodeOutcome::Done);
            }
            NodeOutcome::Hit => self.skip(node, format!("its lead `{beside}` is a cache hit")),
            NodeOutcome::Skipped | NodeOutcome::Excluded => {
                self.skip(node, format!("its lead `{beside}` does not run"))
            }
            NodeOutcome::Failed | NodeOutcome::Blocked => {
                self.state_mut(node).why = Some(format!("blocked by {beside}"));
                self.emit(Event::Blocked { stage, by: beside });
                self.end(node, NodeOutcome::Blocked);
            }
            NodeOutcome::Cancelled => self.cancel_node(node),
            NodeOutcome::WouldRun => {
                self.state_mut(node).why = Some(format!("it runs beside `{beside}`"));
                self.end(node, NodeOutcome::WouldRun);
            }
            NodeOutcome::Deferred => self.end(node, NodeOutcome::Deferred),
        }
    }
}
