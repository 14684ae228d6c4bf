//! Handles stages that another run is computing. Such a stage waits for the other run's result and holds no resources
//! meanwhile.

use crate::engine::RunEngine;
use crate::io::NodeId;
use crate::node::NodePhase;
use std::cmp::Reverse;
use trainyard_core::artifact::GenerationReason;
use trainyard_core::event::{AttemptOutcome, Event};
use trainyard_core::{AttemptNumber, Error, Placement};

/// Milliseconds between two lookups.
const POLL_MILLIS: i64 = 5_000;

impl RunEngine {
    /// Returns the generation that the next attempt of a node makes, if the result of another run is acceptable
    /// instead; `None` otherwise. A requested recomputation is not shared with other runs, nor is a group, which
    /// already holds grants of pools.
    pub(crate) fn claim(&self, node: NodeId) -> Option<u32> {
        let state = self.state(node);
        let shared = matches!(state.reason, None | Some(GenerationReason::Lost)) && state.forced.is_none();
        let alone = state.lead.is_none() && state.companions.is_empty();
        (shared && alone && state.plan.placement == Placement::Process).then_some(state.generation)
    }

    /// Handles a launched attempt that found its stage being computed by another run.
    pub(crate) fn yielded_to_other_run(&mut self, node: NodeId, attempt: AttemptNumber) {
        if self.state(node).phase != (NodePhase::Running { attempt }) {
            return;
        }
        self.release(node);
        let stage = self.key(node).clone();
        let error = Some(Error::cancelled("not started, because another run computes the same stage"));
        self.emit(Event::AttemptEnded { stage, attempt, outcome: AttemptOutcome::Cancelled, error });
        if self.stopping.is_some() {
            return self.cancel_node(node);
        }
        let state = self.state_mut(node);
        // Does not count as a try.
        state.tries = state.tries.saturating_sub(1);
        state.seen_in_other_run = true;
        state.why = None;
        // The other run may have published its result by now.
        self.look_up(node);
    }

    /// Waits for the result of another run that has not published yet.
    pub(crate) fn wait_for_other_run(&mut self, node: NodeId, why: String) {
        let state = self.state_mut(node);
        state.phase = NodePhase::AwaitingOtherRun;
        let is_news = state.why.as_ref() != Some(&why);
        state.why = Some(why.clone());
        if is_news {
            self.emit(Event::Queued { stage: self.key(node).clone(), why });
        }
        let due = self.now.saturating_add(POLL_MILLIS);
        self.state_mut(node).due = Some(due);
        self.wakes.push(Reverse((due, node)));
    }
}
