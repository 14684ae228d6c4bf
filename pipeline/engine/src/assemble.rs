//! Builds an engine from a plan: computes modes, dependents and chain lengths, and reports every error that is known at
//! once.

use crate::NodeId;
use crate::allocator::ResourceAllocator;
use crate::engine::{EngineParts, RunEngine};
use crate::node::{NodeOutcome, NodePhase, NodeState};
use crate::selection::{NodeMode, select};
use crate::setup::{EngineSetup, ResumeState};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use trainyard_core::{Error, Placement, Result, RunId, StageKey};
use trainyard_spec::plan::{Plan, PlanNode};

impl RunEngine {
    /// Returns an engine that has not begun; its first input must be `Begin`.
    ///
    /// Errors: invalid (the selection names an unknown stage, or a selected stage can never be placed).
    pub fn new(plan: &Plan, setup: EngineSetup) -> Result<Self> {
        Self::from_nodes(plan.workflow.clone(), plan.nodes.clone(), setup)
    }

    /// Like [`RunEngine::new`], from a plan's name and its nodes, to avoid a copy of a large plan. Errors: those of
    /// [`RunEngine::new`].
    pub fn from_nodes(workflow: String, nodes: Vec<PlanNode>, setup: EngineSetup) -> Result<Self> {
        let nodes: Vec<_> = nodes.into_iter().map(Arc::new).collect();
        let index: HashMap<StageKey, NodeId> = nodes.iter().zip(0..).map(|(n, i)| (n.key.clone(), NodeId(i))).collect();
        let after = nodes.iter().map(|node| {
            let found = node.after.iter().map(|key| {
                index
                    .get(key)
                    .copied()
                    .ok_or_else(|| Error::bug(format!("{} depends on {key}, which is not in the plan", node.key)))
            });
            found.collect::<Result<Vec<_>>>().map(unique)
        });
        let after = after.collect::<Result<Vec<_>>>()?;
        let leads = leads(&nodes, &index)?;
        let keys: Vec<&StageKey> = nodes.iter().map(|n| &n.key).collect();
        let modes = select(&setup.selection, &keys, &after)?;
        let mut states: Vec<NodeState> =
            nodes.iter().zip(&modes).map(|(n, mode)| NodeState::new(n.clone(), n.key.clone(), &setup, *mode)).collect();
        for (at, list) in after.into_iter().enumerate() {
            for dep in &list {
                states[dep.0 as usize].dependents.push(NodeId(at as u32));
            }
            states[at].waits_for = list.len();
            states[at].after = list;
        }
        form_groups(&mut states, &leads);
        // Plans are in topological order, so one pass from the end measures every chain.
        for at in (0..states.len()).rev() {
            let behind = states[at].dependents.iter().map(|d| states[d.0 as usize].height + 1).max();
            states[at].height = behind.unwrap_or(0);
        }
        let ledger = ResourceAllocator::new(setup.pools.clone());
        refuse_unplaceable(&states, &ledger)?;
        Ok(Self::from_parts(EngineParts { workflow, setup, states, index, allocator: ledger }))
    }

    /// Sets the run and the attempts of its earlier writers, where they are known only after the plan was accepted.
    /// Must be called before the first input.
    pub fn set_run(&mut self, run: RunId, resumed: ResumeState) {
        self.setup.run = run;
        self.setup.resumed = resumed;
        for state in &mut self.states {
            (state.attempt, state.open) = self.setup.resumed.last(&state.key);
        }
    }
}

fn refuse_unplaceable(states: &[NodeState], ledger: &ResourceAllocator) -> Result<()> {
    let mut lines = Vec::new();
    for state in states.iter().filter(|s| s.mode == NodeMode::Run && s.plan.placement == Placement::Process) {
        if let Some(why) = ledger.unsatisfiable(&state.request) {
            lines.push(format!("{}: stage `{}` can never be placed: {why}", state.plan.place, state.key));
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(lines.join("\n")).help("request less under `resources`, or add a pool to the site file"))
}

/// Returns the lead of each node, if any.
fn leads(nodes: &[Arc<PlanNode>], index: &HashMap<StageKey, NodeId>) -> Result<Vec<Option<NodeId>>> {
    let lead = |node: &Arc<PlanNode>| match &node.beside {
        None => Ok(None),
        Some(key) => index
            .get(key)
            .copied()
            .map(Some)
            .ok_or_else(|| Error::bug(format!("{} runs beside {key}, which is not in the plan", node.key))),
    };
    nodes.iter().map(lead).collect()
}

/// Includes the companions of every stage that runs.
fn form_groups(states: &mut [NodeState], leads: &[Option<NodeId>]) {
    for (at, lead) in leads.iter().enumerate() {
        let Some(lead) = *lead else { continue };
        let request = states[at].request.clone();
        let lead_state = &mut states[lead.0 as usize];
        lead_state.companions.push(NodeId(at as u32));
        Arc::make_mut(&mut lead_state.request).extend(request.iter().cloned());
        let mode = lead_state.mode;
        states[at].lead = Some(lead);
        states[at].mode = mode;
        states[at].phase =
            if mode == NodeMode::Excluded { NodePhase::Ended(NodeOutcome::Excluded) } else { NodePhase::Waiting };
    }
}

/// Returns the ids sorted, without duplicates.
fn unique(ids: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
    ids.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}
