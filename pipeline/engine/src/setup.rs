//! Builds an engine from a plan: selection, dependents, chain lengths, and every error that can be known at once.

use crate::engine::{Engine, Parts};
use crate::fold::RunView;
use crate::ledger::Ledger;
use crate::node::{Mode, State, names, unique};
use crate::{MachinePool, NodeId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use trainyard_core::event::{AttemptOutcome, Selection};
use trainyard_core::{AttemptNumber, Digest, Error, Placement, Result, RunId, StageKey, StageKinds};
use trainyard_spec::plan::Plan;

/// What an engine needs besides the plan.
#[derive(Clone)]
pub struct Setup {
    /// The run.
    pub run: RunId,
    /// Which part of the plan runs.
    pub selection: Selection,
    /// Stop the run at the first failed stage.
    pub fail_fast: bool,
    /// The machines that there are.
    pub pools: Vec<MachinePool>,
    /// All stage kinds.
    pub catalogue: Arc<dyn StageKinds>,
    /// Secret name → where its value comes from.
    pub secrets: BTreeMap<String, String>,
    /// Attempts flush every put to the disk, as the engine's own store does.
    pub fsync: bool,
    /// What earlier writers of the run left.
    pub resumed: Resumed,
}

/// What earlier writers of the same run left; attempt numbers only grow.
#[derive(Debug, Clone, Default)]
pub struct Resumed {
    /// The last attempt of each stage that had one.
    pub attempts: BTreeMap<StageKey, LastAttempt>,
}

/// The last attempt of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastAttempt {
    /// Its number.
    pub number: AttemptNumber,
    /// Stage digest and pool, if its end was never journaled, or it succeeded and was never published.
    pub open: Option<(Digest, String)>,
}

impl Resumed {
    /// Reads it from the fold of the journal.
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
    /// An engine that has not begun; its first input must be `Begin`.
    ///
    /// Errors: invalid (the selection names an unknown stage, or a selected stage can never be placed).
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
            return Err(Error::invalid(format!("{option} names `{unknown}`, which is not a stage of this workflow"))
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
