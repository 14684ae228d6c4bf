//! Stages that another run computes at this moment: they wait for its result, without a place in a pool.

use crate::engine::Engine;
use crate::io::NodeId;
use crate::node::Phase;
use std::cmp::Reverse;
use trainyard_core::artifact::GenerationReason;
use trainyard_core::event::{AttemptOutcome, Event};
use trainyard_core::{AttemptNumber, Error, Placement};

/// Milliseconds between two looks.
const LOOK: i64 = 5_000;

impl Engine {
    /// The generation that the next attempt of a node makes, if another run's result would do as well. Who asks for a
    /// computation of their own gets it, and a group has places in pools already.
    pub(crate) fn claim(&self, node: NodeId) -> Option<u32> {
        let state = self.state(node);
        let shared = matches!(state.reason, None | Some(GenerationReason::Lost)) && state.forced.is_none();
        let alone = state.lead.is_none() && state.companions.is_empty();
        (shared && alone && state.plan.placement == Placement::Process).then_some(state.generation)
    }

    /// A launched attempt found that another run computes its stage.
    pub(crate) fn stood_back(&mut self, node: NodeId, attempt: AttemptNumber) {
        if self.state(node).phase != (Phase::Running { attempt }) {
            return;
        }
        self.release(node);
        let stage = self.key(node).clone();
        let error = Some(Error::cancelled("not begun, because another run computes the same"));
        self.emit(Event::AttemptEnded { stage, attempt, outcome: AttemptOutcome::Cancelled, error });
        if self.stopping.is_some() {
            return self.cancel_node(node);
        }
        let state = self.state_mut(node);
        // It was no try.
        state.tried = state.tried.saturating_sub(1);
        state.elsewhere = true;
        state.why = None;
        // The result may be there by now.
        self.look_up(node);
    }

    /// Nothing is published yet, and another run computes it.
    pub(crate) fn wait_elsewhere(&mut self, node: NodeId, why: String) {
        let state = self.state_mut(node);
        state.phase = Phase::Elsewhere;
        let is_news = state.why.as_ref() != Some(&why);
        state.why = Some(why.clone());
        if is_news {
            self.emit(Event::Queued { stage: self.key(node).clone(), why });
        }
        let due = self.now.saturating_add(LOOK);
        self.state_mut(node).due = Some(due);
        self.wakes.push(Reverse((due, node)));
    }
}
