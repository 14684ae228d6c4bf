//! Makes an engine from a plan: modes, dependents, chain lengths, and every error that can be known at once.

use crate::NodeId;
use crate::engine::{Engine, Parts};
use crate::ledger::Ledger;
use crate::node::{Ending, Phase, State};
use crate::selection::{Mode, select};
use crate::setup::{Resumed, Setup};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use trainyard_core::{Error, Placement, Result, RunId, StageKey};
use trainyard_spec::plan::{Node, Plan};

impl Engine {
    /// An engine that has not begun; its first input must be `Begin`.
    ///
    /// Errors: invalid (the selection names an unknown stage, or a selected stage can never be placed).
    pub fn new(plan: &Plan, setup: Setup) -> Result<Self> {
        Self::over(plan.workflow.clone(), plan.nodes.clone(), setup)
    }

    /// The same from a plan's name and its nodes: a large plan should not be copied. Errors: those of [`Engine::new`].
    pub fn over(workflow: String, nodes: Vec<Node>, setup: Setup) -> Result<Self> {
        let nodes: Vec<_> = nodes.into_iter().map(Arc::new).collect();
        let index: HashMap<StageKey, NodeId> = nodes.iter().zip(0..).map(|(n, i)| (n.key.clone(), NodeId(i))).collect();
        let after = nodes.iter().map(|node| {
            let found = node.after.iter().map(|key| {
                index
                    .get(key)
                    .copied()
                    .ok_or_else(|| Error::bug(format!("{} comes after {key}, which is not in the plan", node.key)))
            });
            found.collect::<Result<Vec<_>>>().map(unique)
        });
        let after = after.collect::<Result<Vec<_>>>()?;
        let leads = leads(&nodes, &index)?;
        let keys: Vec<&StageKey> = nodes.iter().map(|n| &n.key).collect();
        let modes = select(&setup.selection, &keys, &after)?;
        let mut states: Vec<State> =
            nodes.iter().zip(&modes).map(|(n, mode)| State::new(n.clone(), n.key.clone(), &setup, *mode)).collect();
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
        let ledger = Ledger::new(setup.pools.clone());
        refuse_unplaceable(&states, &ledger)?;
        Ok(Self::from_parts(Parts { workflow, setup, states, index, ledger }))
    }

    /// Says which run this is and what its earlier writers left, where that is known only after the plan was accepted.
    /// Must come before the first input.
    pub fn belongs_to(&mut self, run: RunId, resumed: Resumed) {
        self.setup.run = run;
        self.setup.resumed = resumed;
        for state in &mut self.states {
            (state.attempt, state.open) = self.setup.resumed.last(&state.key);
        }
    }
}

fn refuse_unplaceable(states: &[State], ledger: &Ledger) -> Result<()> {
    let mut lines = Vec::new();
    for state in states.iter().filter(|s| s.mode == Mode::Run && s.plan.placement == Placement::Process) {
        if let Some(why) = ledger.unsatisfiable(&state.wish) {
            lines.push(format!("{}: stage `{}` can never be placed: {why}", state.plan.place, state.key));
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(lines.join("\n")).help("ask for less under `resources`, or add a pool to the site file"))
}

/// The stage that each node runs beside.
fn leads(nodes: &[Arc<Node>], index: &HashMap<StageKey, NodeId>) -> Result<Vec<Option<NodeId>>> {
    let lead = |node: &Arc<Node>| match &node.beside {
        None => Ok(None),
        Some(key) => index
            .get(key)
            .copied()
            .map(Some)
            .ok_or_else(|| Error::bug(format!("{} runs beside {key}, which is not in the plan", node.key))),
    };
    nodes.iter().map(lead).collect()
}

/// Whoever runs a stage runs those beside it.
fn form_groups(states: &mut [State], leads: &[Option<NodeId>]) {
    for (at, lead) in leads.iter().enumerate() {
        let Some(lead) = *lead else { continue };
        let wish = states[at].wish.clone();
        let of = &mut states[lead.0 as usize];
        of.companions.push(NodeId(at as u32));
        Arc::make_mut(&mut of.wish).extend(wish.iter().cloned());
        let mode = of.mode;
        states[at].lead = Some(lead);
        states[at].mode = mode;
        states[at].phase = if mode == Mode::Excluded { Phase::Ended(Ending::Excluded) } else { Phase::Waiting };
    }
}

/// The ids sorted, without duplicates.
fn unique(ids: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
    ids.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}
