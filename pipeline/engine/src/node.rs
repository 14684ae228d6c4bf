//! Holds the state of one stage instance inside the engine.

use crate::allocator::{GroupRequest, ResolvedRequest};
use crate::pool::Grant;
use crate::selection::{NodeMode, names};
use crate::setup::OpenAttempt;
use crate::{EngineSetup, NodeId};
use serde_json::Value;
use std::sync::Arc;
use trainyard_core::artifact::GenerationReason;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::{AttemptNumber, Digest, Error, Manifest, StageKey};
use trainyard_spec::plan::{CacheMode, PlanNode};

/// Current activity of a node, or the event it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodePhase {
    /// Waits for `waits_for` other nodes.
    Waiting,
    /// Waits for the rows of its fan-out.
    Reading,
    /// Waits for its instances.
    Expanded,
    /// Waits until fewer stages that run inside this process are under way.
    AwaitingTurn,
    /// Waits for the store's response.
    LookingUp,
    /// Waits for the node that was first with the same digest.
    AwaitingLeader,
    /// Waits for its companions.
    AwaitingCompanions,
    /// Runs with its lead, and waits for it.
    AwaitingLead,
    /// Waits for a pool.
    Queued,
    /// Waits for another run that computes the same stage.
    AwaitingOtherRun,
    /// Waits, after a failed attempt, for the check of its inputs.
    Inspecting,
    /// Waits before it tries again.
    Backoff,
    /// Waits for the outcome of an earlier writer's attempt.
    Recovering {
        attempt: AttemptNumber,
    },
    Running {
        attempt: AttemptNumber,
    },
    Publishing {
        attempt: AttemptNumber,
    },
    Ended(NodeOutcome),
}

/// Final state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeOutcome {
    /// Published by this run; for a fan-out, every instance ended well.
    Done,
    Hit,
    Skipped,
    Failed,
    Blocked,
    Cancelled,
    Excluded,
    /// Forecast only: a miss.
    WouldRun,
    /// Forecast only: depends on a miss.
    Deferred,
}

impl NodeOutcome {
    /// Returns the value of `stages.<id>.status`.
    pub fn status(self) -> &'static str {
        match self {
            Self::Done | Self::Hit => "succeeded",
            Self::Skipped | Self::Excluded => "skipped",
            Self::Failed => "failed",
            Self::Blocked => "blocked",
            Self::Cancelled => "cancelled",
            Self::WouldRun | Self::Deferred => "deferred",
        }
    }
}

pub(crate) struct NodeState {
    pub key: StageKey,
    pub plan: Arc<PlanNode>,
    /// For an instance of a late fan-out: its number, its row, and the fan-out itself.
    pub item: Option<(usize, Value, NodeId)>,
    pub instances: Vec<NodeId>,
    pub open_instances: usize,
    pub mode: NodeMode,
    /// Reason to publish a new generation even on a hit.
    pub forced: Option<GenerationReason>,
    pub after: Vec<NodeId>,
    pub dependents: Vec<NodeId>,
    pub waits_for: usize,
    /// Length of the longest chain of nodes that depend on this one.
    pub height: u32,
    pub phase: NodePhase,
    /// Whether the node counts among the stages in progress inside this process.
    pub in_progress: bool,
    /// Request of the node and, for a lead, of its companions.
    pub request: Arc<GroupRequest>,
    /// Lead of the node.
    pub lead: Option<NodeId>,
    /// Companions of the node.
    pub companions: Vec<NodeId>,
    /// Error of the companion that ended the node's attempt.
    pub broken: Option<Error>,
    /// The only time at which a wake concerns this node now.
    pub due: Option<i64>,
    /// Digest, known once the inputs are.
    pub digest: Option<Digest>,
    /// Spec, set with the digest and dropped when the node has ended; its attempt number is 0.
    pub spec: Option<Arc<AttemptSpec>>,
    pub generation: u32,
    pub reason: Option<GenerationReason>,
    /// Number of the last attempt in this run, those of earlier writers included.
    pub attempt: AttemptNumber,
    /// Number of attempts by this engine since the last progress.
    pub tries: u32,
    /// Number of attempts that were preempted since the last progress; they are not among the tries.
    pub preemptions: u32,
    /// Whether another run was seen to compute the node.
    pub seen_in_other_run: bool,
    /// Number of times that the node was computed again because its output was lost.
    pub recomputed: u32,
    /// The last step whose resume point an attempt of this engine stored.
    pub saved_step: Option<u64>,
    /// The last attempt of an earlier writer, if it was left open.
    pub open: Option<OpenAttempt>,
    pub grant: Option<Grant>,
    pub followers: Vec<NodeId>,
    /// Node that computes the same digest, whose end this node awaited.
    pub leader: Option<NodeId>,
    /// Published manifest, without config and inputs, which no later stage reads.
    pub manifest: Option<Arc<Manifest>>,
    /// Successful attempt whose manifest the store did not accept: it is put again, not computed again.
    pub unpublished: Option<(AttemptNumber, Arc<Manifest>)>,
    pub error: Option<Error>,
    pub why: Option<String>,
}

impl NodeState {
    pub fn new(plan: Arc<PlanNode>, key: StageKey, setup: &EngineSetup, mode: NodeMode) -> Self {
        let selection = &setup.selection;
        let forced = if names(&selection.rerun, &key) {
            Some(GenerationReason::Rerun)
        } else {
            (plan.cache == CacheMode::Disabled).then_some(GenerationReason::Uncached)
        };
        let alternatives: Vec<ResolvedRequest> =
            plan.resources.iter().map(|r| ResolvedRequest::new(r, plan.all_cpus)).collect();
        let (attempt, open) = setup.resumed.last(&key);
        Self {
            key,
            plan,
            item: None,
            instances: Vec::new(),
            open_instances: 0,
            mode,
            forced: if mode == NodeMode::Run { forced } else { None },
            after: Vec::new(),
            dependents: Vec::new(),
            waits_for: 0,
            height: 0,
            phase: if mode == NodeMode::Excluded {
                NodePhase::Ended(NodeOutcome::Excluded)
            } else {
                NodePhase::Waiting
            },
            in_progress: false,
            request: Arc::new(vec![alternatives]),
            lead: None,
            companions: Vec::new(),
            broken: None,
            due: None,
            digest: None,
            spec: None,
            generation: 0,
            reason: None,
            attempt,
            tries: 0,
            preemptions: 0,
            seen_in_other_run: false,
            recomputed: 0,
            saved_step: None,
            open,
            grant: None,
            followers: Vec::new(),
            leader: None,
            manifest: None,
            unpublished: None,
            error: None,
            why: None,
        }
    }
    pub fn ending(&self) -> Option<NodeOutcome> {
        match self.phase {
            NodePhase::Ended(ending) => Some(ending),
            _ => None,
        }
    }
    /// Returns whether this is a late fan-out itself, not one of its instances.
    pub fn is_group(&self) -> bool {
        self.plan.fan_out.is_some() && self.item.is_none()
    }
}
