//! From a plan to an engine that has not begun: selection, dependents, heights, and what can be refused at once.

use crate::engine::{Engine, Parts};
use crate::fold::RunView;
use crate::ledger::Ledger;
use crate::node::{Mode, State, names, unique};
use crate::{NodeId, Pool};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use trainyard_core::event::{AttemptOutcome, Selection};
use trainyard_core::{AttemptNumber, Digest, Error, Placement, Result, RunId, StageKey, StageKinds};
use trainyard_spec::plan::Plan;

/// What a run is made of, besides its plan.
#[derive(Clone)]
pub struct Setup {
    pub run: RunId,
    pub selection: Selection,
    pub fail_fast: bool,
    pub pools: Vec<Pool>,
    pub catalogue: Arc<dyn StageKinds>,
    /// Secret name → where its value comes from.
    pub secrets: BTreeMap<String, String>,
    /// Attempts flush what they store, as the engine's own store does.
    pub fsync: bool,
    pub resumed: Resumed,
}

/// What earlier writers of the same run left: attempt numbers only grow.
#[derive(Debug, Clone, Default)]
pub struct Resumed {
    pub attempts: BTreeMap<StageKey, LastAttempt>,
}

/// The last attempt of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastAttempt {
    pub number: AttemptNumber,
    /// Stage digest and pool, if its end was never journaled (or it succeeded and was never published).
    pub open: Option<(Digest, String)>,
}

impl Resumed {
    /// From the journal's fold.
    pub fn from_view(view: &RunView) -> Self {
        let last = |stage: &crate::fold::StageView| {
            let attempt = stage.attempts.last()?;
            let ended_here = matches!(
                attempt.outcome,
                Some(AttemptOutcome::Failed | AttemptOutcome::TimedOut | AttemptOutcome::Cancelled)
            );
            let open =
                (!ended_here && stage.generation.is_none()).then(|| (attempt.digest.clone(), attempt.pool.clone()));
            Some((stage.key().clone(), LastAttempt { number: attempt.number, open }))
        };
        Self { attempts: view.stages.iter().filter_map(last).collect() }
    }
}

impl Engine {
    /// Errors: invalid (the selection names no stage; a selected stage can never be placed).
    pub fn new(plan: &Plan, setup: Setup) -> Result<Self> {
        let nodes: Vec<_> = plan.nodes.iter().cloned().map(Arc::new).collect();
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
        // Plans are in topological order, so one pass from the end measures every chain.
        for at in (0..states.len()).rev() {
            let behind = states[at].dependents.iter().map(|d| states[d.0 as usize].height + 1).max();
            states[at].height = behind.unwrap_or(0);
        }
        let ledger = Ledger::new(setup.pools.clone());
        refuse_unplaceable(&states, &ledger)?;
        Ok(Self::from_parts(Parts { workflow: plan.workflow.clone(), setup, states, index, ledger }))
    }
}

fn refuse_unplaceable(states: &[State], ledger: &Ledger) -> Result<()> {
    let mut lines = Vec::new();
    for state in states.iter().filter(|s| s.mode == Mode::Run && s.plan.placement == Placement::Process) {
        if let Some(why) = ledger.unsatisfiable(&state.asks) {
            lines.push(format!("{}: stage `{}` can never be placed: {why}", state.plan.place, state.key));
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(lines.join("\n")).help("ask for less under `resources`, or add a pool to the site file"))
}

fn select(selection: &Selection, keys: &[&StageKey], after: &[Vec<NodeId>]) -> Result<Vec<Mode>> {
    let lists = [("--until", &selection.until), ("--only", &selection.only), ("--rerun", &selection.rerun)];
    for (option, list) in lists {
        if let Some(unknown) = list.iter().find(|name| !keys.iter().any(|k| names(std::slice::from_ref(*name), k))) {
            let mut ids: Vec<&str> = keys.iter().map(|k| k.stage_id()).collect();
            ids.dedup();
            ids.truncate(20);
            return Err(Error::invalid(format!("{option} names `{unknown}`, which is no stage of this workflow"))
                .help(format!("stages are {}", ids.join(", "))));
        }
    }
    if selection.until.is_empty() && selection.only.is_empty() {
        return Ok(vec![Mode::Run; keys.len()]);
    }
    let mut modes = vec![Mode::Excluded; keys.len()];
    // From the end: a stage's own mode is known before those of the stages that it needs.
    for at in (0..keys.len()).rev() {
        if names(&selection.until, keys[at]) || names(&selection.only, keys[at]) {
            modes[at] = Mode::Run;
        }
        let asked_alone = names(&selection.only, keys[at]) || modes[at] == Mode::LookupOnly;
        for dep in after[at].iter().map(|d| d.0 as usize) {
            match modes[at] {
                Mode::Excluded => {}
                _ if asked_alone && modes[dep] == Mode::Excluded => modes[dep] = Mode::LookupOnly,
                Mode::Run if !asked_alone => modes[dep] = Mode::Run,
                _ => {}
            }
        }
    }
    Ok(modes)
}
