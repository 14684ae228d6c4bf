//! Recovers from missing or damaged inputs: the stages that produced them run again, then the stage that needs them.
//!
//! A lookup does not read bytes, so only the reader of an object finds it damaged, and removes it. The reader's attempt
//! then fails with an error that may have other causes too. The store therefore reports which inputs of the attempt are
//! lost; if none is, the error is handled like any other. A stage whose output was lost is looked up again, and
//! published as its next generation.
//!
//! Inputs from late fan-outs and inputs of groups are not recovered by the same command, but by the next one.

use crate::engine::RunEngine;
use crate::io::{Command, NodeId};
use crate::node::{NodeOutcome, NodePhase};
use trainyard_core::attempt::AttemptInput;
use trainyard_core::event::Event;
use trainyard_core::{Digest, Error, ErrorKind, Result};

/// Maximum number of times that an engine computes a stage again because its output was lost. A store that loses
/// accepted objects repeatedly would lose the next ones too.
const MAX_RECOMPUTES: u32 = 2;

impl RunEngine {
    /// Requests a check of a failed attempt's inputs. Returns false if they cannot be the cause.
    pub(crate) fn suspects_inputs(&mut self, node: NodeId, error: &Error) -> bool {
        if !matches!(error.kind, ErrorKind::Data | ErrorKind::Lost) || self.state(node).unpublished.is_some() {
            return false;
        }
        // Companions have separate inputs; the next command recovers the inputs of a group.
        if !self.state(node).companions.is_empty() {
            return false;
        }
        let read = self.state(node).spec.iter().flat_map(|spec| spec.inputs.values().flatten());
        let inputs: Vec<AttemptInput> = read.cloned().collect();
        if inputs.is_empty() {
            return false;
        }
        let state = self.state_mut(node);
        state.phase = NodePhase::Inspecting;
        state.error = Some(error.clone());
        self.command(Command::Inspect { node, inputs });
        true
    }

    /// Handles the response: digest and generation of the manifests with lost objects.
    pub(crate) fn inspected(&mut self, node: NodeId, lost: Result<Vec<(Digest, u32)>>) {
        if self.state(node).phase != NodePhase::Inspecting {
            return;
        }
        let Some(error) = self.state_mut(node).error.take() else { return };
        let lost = lost.unwrap_or_default();
        let has_lost = |engine: &Self, producer: &NodeId| {
            let digest = engine.state(*producer).digest.as_ref();
            lost.iter().any(|(lost_digest, _)| Some(lost_digest) == digest)
        };
        let producers: Vec<NodeId> = self.producers(node).into_iter().filter(|p| has_lost(self, p)).collect();
        // The input may have been computed again meanwhile for another reader.
        let is_lost = |producer: &NodeId| {
            let state = self.state(*producer);
            let key = state.manifest.as_ref().map(|manifest| (manifest.stage_digest.clone(), manifest.generation));
            state.ending().is_some() && key.is_some_and(|key| lost.contains(&key))
        };
        let to_reopen: Vec<NodeId> = producers.iter().copied().filter(is_lost).collect();
        if producers.is_empty() || to_reopen.iter().any(|producer| self.state(*producer).recomputed >= MAX_RECOMPUTES) {
            return self.retry(node, error);
        }
        let names: Vec<String> = producers.iter().map(|producer| format!("`{}`", self.key(*producer))).collect();
        let why = format!("an input is missing or damaged: {} runs again", names.join(", "));
        self.emit(Event::Queued { stage: self.key(node).clone(), why });
        to_reopen.into_iter().for_each(|producer| self.reopen(producer));
        self.reset_inputs(node);
    }

    /// Returns the stages that a node reads from, and that can be computed again by themselves.
    fn producers(&self, node: NodeId) -> Vec<NodeId> {
        let state = self.state(node);
        let named = state.plan.inputs.iter().flat_map(|input| &input.from).filter_map(|of| self.find(&of.stage.0));
        let repeatable = |producer: &NodeId| self.state(*producer).plan.fan_out.is_none();
        let mut found: Vec<NodeId> = named.filter(repeatable).collect();
        found.sort();
        found.dedup();
        found
    }

    /// Looks up a stage again that had ended well.
    fn reopen(&mut self, node: NodeId) {
        let state = self.state_mut(node);
        debug_assert!(
            matches!(state.ending(), Some(NodeOutcome::Done | NodeOutcome::Hit)),
            "{} left something",
            state.key
        );
        state.phase = NodePhase::Waiting;
        state.recomputed += 1;
        (state.tries, state.preemptions) = (0, 0);
        let dependents = state.dependents.clone();
        self.open += 1;
        for dependent in dependents {
            self.state_mut(dependent).waits_for += 1;
        }
        self.ready(node);
    }

    /// Makes a node wait for its inputs again. The bytes of the inputs, and thereby the digest of the node, may change.
    fn reset_inputs(&mut self, node: NodeId) {
        let state = self.state_mut(node);
        state.phase = NodePhase::Waiting;
        let (digest, followers) = (state.digest.clone(), std::mem::take(&mut state.followers));
        if let Some(digest) = digest
            && self.leaders.get(&digest) == Some(&node)
        {
            self.leaders.remove(&digest);
        }
        for follower in followers {
            if self.state(follower).phase == NodePhase::AwaitingLeader {
                self.look_up(follower);
            }
        }
        if self.state(node).waits_for == 0 {
            self.ready(node);
        }
    }
}
