//! Groups: a stage (the lead) and its companions, which start together and end with the lead.
//!
//! The lead is the stage that the others name. It alone is looked up, admitted, published and retried; its digest
//! includes theirs, since they affect its result. Companions are launched with it, all or none, and stopped when its
//! attempt ends, which does not count as their failure. A companion that fails earlier ends the attempt of the lead,
//! and the lead's `retry` decides about the whole group.

use crate::engine::Engine;
use crate::io::{Command, Finished, NodeId};
use crate::node::{Ending, Phase};
use std::sync::Arc;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::event::{AttemptOutcome, Event};
use trainyard_core::peers::Peer;
use trainyard_core::{AttemptNumber, Digest, Error};

impl Engine {
    /// Returns the lead and its companions.
    pub(crate) fn members(&self, lead: NodeId) -> Vec<NodeId> {
        [lead].into_iter().chain(self.state(lead).companions.iter().copied()).collect()
    }

    /// Returns whether all companions are prepared and have no attempt in progress.
    pub(crate) fn is_gathered(&self, lead: NodeId) -> bool {
        self.state(lead).companions.iter().all(|c| self.state(*c).phase == Phase::Beside)
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
    pub(crate) fn peers(&self, members: &[NodeId], nodes: &[u32]) -> Vec<Peer> {
        if members.len() == 1 && nodes.iter().all(|n| *n <= 1) {
            return Vec::new();
        }
        let one = |(member, nodes): (&NodeId, &u32)| {
            let state = self.state(*member);
            Peer { stage: state.key.clone(), attempt: state.attempt + 1, nodes: *nodes }
        };
        members.iter().zip(nodes).map(one).collect()
    }

    /// Handles a companion that is prepared or whose attempt is over: its lead may continue.
    pub(crate) fn stand_beside(&mut self, node: NodeId, lead: NodeId) {
        self.state_mut(node).phase = Phase::Beside;
        if self.state(lead).ending().is_some() {
            self.close(node, lead);
        } else if self.state(lead).phase == Phase::Gathering && self.is_gathered(lead) {
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
        finished: Option<Finished>,
    ) {
        let finished = finished
            .unwrap_or_else(|| Finished::failed(AttemptOutcome::Lost, Error::lost("the engine that ran it is gone")));
        let (stage, Finished { outcome, error, .. }) = (self.key(node).clone(), finished);
        self.emit(Event::AttemptEnded { stage: stage.clone(), attempt, outcome, error: error.clone() });
        if let Phase::Running { attempt } | Phase::Recovering { attempt } = self.state(lead).phase
            && outcome != AttemptOutcome::Succeeded
            && self.stopping.is_none()
        {
            let error = error.unwrap_or_else(|| Error::lost("it ended for an unknown reason"));
            let state = self.state_mut(lead);
            state.broken.get_or_insert(error.at(format!("`{stage}`, which runs beside it")));
            self.command(Command::Stop { node: lead, attempt, kill: false });
        }
        self.stand_beside(node, lead);
    }

    /// Returns how the lead's attempt ended, if a companion broke it.
    pub(crate) fn because_of_the_group(&mut self, lead: NodeId, finished: Finished) -> Finished {
        match self.state_mut(lead).broken.take() {
            Some(error) if finished.outcome != AttemptOutcome::Succeeded => {
                Finished::failed(AttemptOutcome::Failed, error)
            }
            _ => finished,
        }
    }

    /// Stops the companions after the lead's attempt is over.
    pub(crate) fn stop_companions(&mut self, lead: NodeId) {
        for node in self.state(lead).companions.clone() {
            if let Phase::Running { attempt } | Phase::Recovering { attempt } = self.state(node).phase {
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
            state.phase = Phase::Recovering { attempt };
            self.command(Command::Recover { node, spec, pool: open.pool, handle: open.handle });
        }
    }

    /// Handles the end of a stage: with a lead, its companions that do not run end too; a companion of a lead that has
    /// not ended dissolves the group.
    pub(crate) fn end_group_of(&mut self, node: NodeId) {
        self.stop_companions(node);
        for companion in self.state(node).companions.clone() {
            if matches!(self.state(companion).phase, Phase::Beside | Phase::Waiting) {
                self.close(companion, node);
            }
        }
        let Some(lead) = self.state(node).lead.filter(|lead| self.state(*lead).ending().is_none()) else { return };
        let stage = self.key(lead).clone();
        match self.state(node).ending() {
            Some(Ending::Skipped) => {
                let why = format!("`{}`, which runs beside it, was skipped", self.key(node));
                self.skip(lead, why);
            }
            Some(Ending::Cancelled) => self.cancel_node(lead),
            Some(Ending::Deferred) => self.end(lead, Ending::Deferred),
            _ => {
                let by = self.key(node).clone();
                self.state_mut(lead).why = Some(format!("blocked by {by}"));
                self.emit(Event::Blocked { stage, by });
                self.end(lead, Ending::Blocked);
            }
        }
    }

    /// Ends a companion of a lead that has ended.
    fn close(&mut self, node: NodeId, lead: NodeId) {
        let (stage, beside) = (self.key(node).clone(), self.key(lead).clone());
        let Some(ending) = self.state(lead).ending() else { return };
        match ending {
            Ending::Done => {
                self.emit(Event::Served { stage, beside });
                self.end(node, Ending::Done);
            }
            Ending::Hit => self.skip(node, format!("`{beside}`, beside which it runs, is a hit")),
            Ending::Skipped | Ending::Excluded => {
                self.skip(node, format!("`{beside}`, beside which it runs, does not"))
            }
            Ending::Failed | Ending::Blocked => {
                self.state_mut(node).why = Some(format!("blocked by {beside}"));
                self.emit(Event::Blocked { stage, by: beside });
                self.end(node, Ending::Blocked);
            }
            Ending::Cancelled => self.cancel_node(node),
            Ending::WouldRun => {
                self.state_mut(node).why = Some(format!("it runs beside `{beside}`"));
                self.end(node, Ending::WouldRun);
            }
            Ending::Deferred => self.end(node, Ending::Deferred),
        }
    }
}
