//! Holds the state of a run, and the function that advances it.
//!
//! A step applies one input completely before it admits new attempts: it notifies every dependent of an ended stage,
//! then the dependents of these, until no other node is affected. No work remains partially done between two steps.
//! Late inputs (for a stage that ended, or an attempt that is not current) change nothing.

use crate::allocator::ResourceAllocator;
use crate::io::{Command, EngineStep, Input, NodeId};
use crate::node::{NodeOutcome, NodePhase, NodeState};
use crate::queue::StageQueue;
use crate::setup::EngineSetup;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use trainyard_core::event::{Event, EventRecord, RunOutcome};
use trainyard_core::{Digest, Error, StageKey};
use trainyard_spec::options::KindOptions;
use trainyard_spec::plan::RunCondition;

/// The state machine of one run.
pub struct RunEngine {
    pub(crate) workflow: String,
    pub(crate) setup: EngineSetup,
    pub(crate) states: Vec<NodeState>,
    pub(crate) index: HashMap<StageKey, NodeId>,
    /// The first node of each digest that has not ended.
    pub(crate) leaders: HashMap<Digest, NodeId>,
    pub(crate) allocator: ResourceAllocator,
    pub(crate) queue: StageQueue,
    /// Ready nodes of kinds that run inside this process, in order.
    pub(crate) in_process: VecDeque<NodeId>,
    pub(crate) in_process_running: usize,
    /// Ready nodes of such kinds that are not prepared yet, in order.
    pub(crate) prepare_queue: VecDeque<NodeId>,
    /// Number of such nodes that are prepared and have not ended.
    pub(crate) in_progress: usize,
    /// Nodes that are queued for a pool and not yet journaled as such.
    pub(crate) newly_queued: Vec<NodeId>,
    pub(crate) wakes: BinaryHeap<Reverse<(i64, NodeId)>>,
    /// Nodes that ended and whose dependents have not been notified yet.
    pub(crate) ended: VecDeque<NodeId>,
    /// Number of nodes that have not ended.
    pub(crate) open: usize,
    pub(crate) stopping: Option<RunStop>,
    /// Number of nodes that failed or are blocked.
    pub(crate) failed: usize,
    /// Number of nodes that were stopped or never started because the run stops.
    pub(crate) cancelled: usize,
    pub(crate) now: i64,
    pub(crate) out: EngineStep,
    pub(crate) finished: bool,
    /// Whether the engine only looks up digests; a miss ends its node.
    pub(crate) forecasting: bool,
    /// Compiled schemas of the kinds whose configs were completed late.
    pub(crate) options: HashMap<&'static str, KindOptions>,
}

/// Reason why no new attempt starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunStop {
    Cancel {
        kill: bool,
    },
    /// A stage failed with `--fail-fast`.
    Failure,
}

pub(crate) struct EngineParts {
    pub workflow: String,
    pub setup: EngineSetup,
    pub states: Vec<NodeState>,
    pub index: HashMap<StageKey, NodeId>,
    pub allocator: ResourceAllocator,
}

impl RunEngine {
    pub(crate) fn from_parts(parts: EngineParts) -> Self {
        let open = parts.states.iter().filter(|s| s.ending().is_none()).count();
        Self {
            workflow: parts.workflow,
            setup: parts.setup,
            states: parts.states,
            index: parts.index,
            leaders: HashMap::new(),
            allocator: parts.allocator,
            queue: StageQueue::default(),
            in_process: VecDeque::new(),
            in_process_running: 0,
            prepare_queue: VecDeque::new(),
            in_progress: 0,
            newly_queued: Vec::new(),
            wakes: BinaryHeap::new(),
            ended: VecDeque::new(),
            open,
            stopping: None,
            failed: 0,
            cancelled: 0,
            now: 0,
            out: EngineStep::default(),
            finished: false,
            forecasting: false,
            options: HashMap::new(),
        }
    }

    /// Applies one input. `now` is in Unix milliseconds. A late input changes nothing.
    pub fn step(&mut self, now: i64, input: Input) -> EngineStep {
        self.now = now;
        if !self.finished {
            self.handle_input(input);
            self.propagate_ends();
            self.admit();
            self.finish();
        }
        std::mem::take(&mut self.out)
    }

    /// Returns when the next [`Input::Tick`] is due, in Unix milliseconds; `None` if no node waits for time, or the run
    /// is over.
    pub fn next_wake(&self) -> Option<i64> {
        // The wake of a stage that was cancelled while it waited remains in the queue.
        self.wakes.peek().filter(|_| !self.finished).map(|Reverse((at, _))| *at)
    }

    /// Returns the number of stages that wait for a pool.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns the number of stages inside this process between their digest and their end.
    pub fn in_process_count(&self) -> usize {
        self.in_progress
    }

    /// Returns whether the run is over.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns the stage key of a node.
    pub fn key(&self, node: NodeId) -> &StageKey {
        &self.state(node).key
    }

    /// Returns why a stage is not running at this moment; `None` if the stage is unknown or waits for nothing.
    pub fn explain(&self, key: &StageKey) -> Option<String> {
        let state = self.state(*self.index.get(key)?);
        match state.phase {
            NodePhase::Waiting => {
                let open = state
                    .after
                    .iter()
                    .map(|d| self.state(*d))
                    .filter(|s| s.ending().is_none())
                    .map(|s| s.key.0.as_str());
                Some(format!("waits for {}", open.collect::<Vec<_>>().join(", ")))
            }
            NodePhase::Reading => Some("waits for the rows of its list".into()),
            NodePhase::Expanded => {
                Some(format!("waits for {} of {} instances", state.open_instances, state.instances.len()))
            }
            NodePhase::AwaitingTurn => Some("waits until fewer stages run inside this process".into()),
            NodePhase::LookingUp => Some("waits for the store's response".into()),
            NodePhase::AwaitingOtherRun => state.why.clone(),
            NodePhase::Inspecting => Some("waits for the check of its inputs in the store".into()),
            NodePhase::AwaitingLeader => Some("waits for a stage with the same digest".into()),
            NodePhase::AwaitingCompanions => Some("waits for the stages that run beside it".into()),
            NodePhase::AwaitingLead => state.lead.map(|lead| format!("starts with {}", self.key(lead))),
            NodePhase::Queued => Some(self.allocator.unavailable_reasons(&state.request)),
            NodePhase::Backoff => Some(match &state.unpublished {
                Some((attempt, _)) => format!("waits before it publishes attempt {attempt} again"),
                None => format!("waits before attempt {}", state.attempt + 1),
            }),
            NodePhase::Recovering { attempt } => Some(format!("looks for the result of attempt {attempt}")),
            NodePhase::Running { .. } | NodePhase::Publishing { .. } | NodePhase::Ended(_) => None,
        }
    }

    fn handle_input(&mut self, input: Input) {
        match input {
            Input::Begin => self.begin(),
            Input::LookedUp { node, answer } => self.looked(node, answer),
            Input::Rows { node, rows } => self.expand(node, rows),
            Input::Inspected { node, lost } => self.inspected(node, lost),
            Input::Submitted { node, attempt, handle } => self.attempt_submitted(node, attempt, handle),
            Input::AttemptWaits { node, attempt, why } => self.attempt_waits(node, attempt, why),
            Input::CheckpointSaved { node, attempt, step } => self.resume_point_saved(node, attempt, step),
            Input::FoundElsewhere { node, attempt } => self.yielded_to_other_run(node, attempt),
            Input::Ended { node, attempt, finished } => self.attempt_ended(node, attempt, finished),
            Input::Recovered { node, attempt, finished } => self.recovered(node, attempt, finished),
            Input::Published { node, attempt, answer } => self.publication(node, attempt, answer),
            Input::ExternalUsage { pool, machine, held } => {
                self.allocator.set_external_usage(&pool, &machine, held);
            }
            Input::Cancel { why } => self.cancel(why),
            Input::Tick => self.wake(),
        }
    }

    fn begin(&mut self) {
        for at in 0..self.states.len() {
            let node = NodeId(at as u32);
            let state = &self.states[at];
            if state.ending().is_some() {
                continue;
            }
            if let RunCondition::Never(why) = &state.plan.when {
                let why = why.clone();
                self.skip(node, why);
            } else if state.waits_for == 0 {
                self.ready(node);
            }
        }
    }

    fn wake(&mut self) {
        while let Some(Reverse((at, node))) = self.wakes.peek().copied() {
            if at > self.now {
                return;
            }
            self.wakes.pop();
            if self.state(node).due != Some(at) {
                continue;
            }
            match self.state(node).phase {
                NodePhase::Backoff => self.try_again(node),
                NodePhase::AwaitingOtherRun => self.look_up(node),
                NodePhase::Queued => self.waited_too_long(node),
                _ => {}
            }
        }
    }

    /// Notifies the dependents, followers and fan-outs of every node that ended, until nothing more follows. A loop
    /// rather than recursion, since a chain may be as long as the plan.
    fn propagate_ends(&mut self) {
        loop {
            self.notify_dependents();
            if !self.prepare_next() {
                return;
            }
        }
    }

    fn notify_dependents(&mut self) {
        while let Some(node) = self.ended.pop_front() {
            if !self.forecasting {
                // Config and inputs, which are no longer needed, are most of a stage's memory.
                self.state_mut(node).spec = None;
            }
            if let Some(digest) = self.state(node).digest.clone()
                && self.leaders.get(&digest) == Some(&node)
            {
                self.leaders.remove(&digest);
            }
            for follower in std::mem::take(&mut self.state_mut(node).followers) {
                self.follow(follower, node);
            }
            self.end_group_of(node);
            if let Some((_, _, group)) = self.state(node).item {
                self.instance_ended(group);
            }
            for dependent in self.state(node).dependents.clone() {
                let state = self.state_mut(dependent);
                state.waits_for -= 1;
                if state.waits_for == 0 && state.phase == NodePhase::Waiting {
                    self.ready(dependent);
                }
            }
        }
    }

    fn finish(&mut self) {
        if self.open > 0 || self.finished {
            return;
        }
        self.finished = true;
        let outcome = match (self.stopping, self.failed, self.cancelled) {
            (Some(RunStop::Cancel { .. }), _, 1..) => RunOutcome::Cancelled,
            (_, 0, 0) => RunOutcome::Succeeded,
            _ => RunOutcome::Failed,
        };
        self.emit(Event::RunFinished { outcome });
        self.command(Command::Finish { outcome });
    }

    /// Ends a node permanently. The caller has emitted the corresponding event.
    pub(crate) fn end(&mut self, node: NodeId, ending: NodeOutcome) {
        let state = self.state_mut(node);
        debug_assert!(state.ending().is_none(), "{} ended twice", state.key);
        state.phase = NodePhase::Ended(ending);
        let was_in_progress = std::mem::take(&mut state.in_progress);
        self.in_progress -= usize::from(was_in_progress);
        self.open -= 1;
        self.ended.push_back(node);
        match ending {
            NodeOutcome::Failed => {
                self.failed += 1;
                if self.setup.fail_fast && self.stopping.is_none() {
                    self.stop(RunStop::Failure);
                }
            }
            NodeOutcome::Blocked => self.failed += 1,
            NodeOutcome::Cancelled => self.cancelled += 1,
            _ => {}
        }
    }

    pub(crate) fn skip(&mut self, node: NodeId, why: String) {
        self.state_mut(node).why = Some(why.clone());
        self.emit(Event::Skipped { stage: self.key(node).clone(), why });
        self.end(node, NodeOutcome::Skipped);
    }

    pub(crate) fn fail(&mut self, node: NodeId, error: Error) {
        self.state_mut(node).error = Some(error.clone());
        self.emit(Event::StageFailed { stage: self.key(node).clone(), error });
        self.end(node, NodeOutcome::Failed);
    }

    pub(crate) fn state(&self, node: NodeId) -> &NodeState {
        &self.states[node.0 as usize]
    }
    pub(crate) fn state_mut(&mut self, node: NodeId) -> &mut NodeState {
        &mut self.states[node.0 as usize]
    }
    pub(crate) fn emit(&mut self, event: Event) {
        self.out.records.push(EventRecord { at: self.now, event });
    }
    pub(crate) fn command(&mut self, command: Command) {
        self.out.commands.push(command);
    }
}
