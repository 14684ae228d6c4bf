//! Builds the dependencies of a run: store, pools, executors, stage kinds, clock and randomness.

use crate::catalogue::Catalogue;
use crate::in_process::InProcessStages;
use crate::machine;
use crate::scratch::ScratchFolder;
use crate::session::{self, AppSession};
use crate::tracking::TrackerContext;
use futures::future::BoxFuture;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use trainyard_core::{Chance, Clock, Error, Output, Result};
use trainyard_engine::{Gpu, MachinePool, PoolMachine};
use trainyard_runtime::executors::{ExecutorContext, ExecutorKind, Executors, Launcher};
use trainyard_runtime::resume::LocalMachine;
use trainyard_runtime::slots::Slots;
use trainyard_runtime::{Observer, OutputRowReader, RunContext};
use trainyard_spec::site;
use trainyard_store::Store;

/// Returns the launcher that starts `program` for the attempts of a pool. `run` stages inherit the same environment.
fn launcher(program: PathBuf, environment: &[(OsString, OsString)]) -> Launcher {
    let threads = trainyard_lm::threads::ENVIRONMENT.iter().map(|(name, value)| (name.into(), value.into()));
    Launcher { env: threads.chain(environment.iter().cloned()).collect(), ..Launcher::new(program) }
}

/// Returns the path of this program, which starts attempts and workers as further processes.
pub fn program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|e| Error::bug(format!("the path of this program is unknown: {e}")))
}

/// Returns the dependencies of this session's runs. `observer` receives the events of the runs.
pub fn run_context(
    session: &AppSession,
    catalogue: &Arc<Catalogue>,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
) -> Result<RunContext> {
    let pools: Vec<MachinePool> = session.site.pools.iter().map(pool).collect();
    let slots = slots(session, catalogue);
    let in_process =
        InProcessStages { store: session.store.clone(), catalogue: catalogue.clone(), handle: session.handle() };
    let executors = executors(session, catalogue, slots.as_ref())?;
    Ok(RunContext {
        store: session.store.clone(),
        pools,
        executors,
        catalogue: catalogue.clone(),
        in_process: Arc::new(in_process),
        rows: Arc::new(TableRows(session.store.clone())),
        secrets: session.site.secrets.clone(),
        orphan_timeout: session.site.orphan_timeout,
        processes: Arc::new(LocalMachine),
        chance: chance(clock.as_ref()),
        clock,
        observer,
    })
}

/// Returns the dependencies of the trackers of a session's runs.
pub fn tracker_context(session: &AppSession) -> TrackerContext {
    let folder = session.site.folder.clone().unwrap_or_default();
    TrackerContext { store: session.store.clone(), handle: session.handle(), folder }
}

/// Returns this machine's slots, or `None` if no pool is on this machine. All runs of this user share them; runs of all
/// users do if the site file sets a common folder.
pub fn slots(session: &AppSession, catalogue: &Catalogue) -> Option<Slots> {
    let pools: Vec<MachinePool> = session.site.pools.iter().map(pool).collect();
    let here = local_pools(&pools, catalogue.executors());
    let folder = session.site.slots.clone().unwrap_or_else(|| session::home().join("slots"));
    this_machine(&here, machine::cpus(), machine::memory()).map(|machine| Slots::new(folder, machine))
}

/// Returns the executor of each pool, built with the options and the program of the pool. Errors: invalid (the options,
/// or an unknown executor).
pub fn executors(session: &AppSession, catalogue: &Catalogue, slots: Option<&Slots>) -> Result<Executors> {
    let mut executors = Vec::new();
    for pool in &session.site.pools {
        let program = pool.program.as_ref().map_or_else(program, |path| Ok(PathBuf::from(path)))?;
        let launcher = launcher(program, &session.environment);
        let context = ExecutorContext { pool: pool.name.clone(), launcher, slots: slots.cloned() };
        executors.push((pool.name.clone(), catalogue.executor(&pool.executor)?.build(&context, &pool.with)?));
    }
    Ok(Executors::new(executors))
}

/// Returns a random source for run ids and writer names only, since it depends on time and process id. It must not
/// affect a digest.
pub fn chance(clock: &dyn Clock) -> Chance {
    Chance::new((clock.unix_millis() as u64).rotate_left(20) ^ u64::from(std::process::id()))
}

/// Converts a pool of the site to the engine's form.
fn pool(pool: &site::SitePool) -> MachinePool {
    let gpus: Vec<Gpu> = pool.gpus.iter().map(|g| Gpu { index: g.index, memory: g.memory }).collect();
    let machine = |i: u32| PoolMachine {
        name: if pool.nodes == 1 { pool.name.clone() } else { format!("{}-{i}", pool.name) },
        cpus: pool.cpus,
        memory: pool.memory,
        gpus: gpus.clone(),
    };
    MachinePool {
        name: pool.name.clone(),
        executor: pool.executor.clone(),
        priority: pool.priority,
        tags: pool.tags.clone(),
        machines: (0..pool.nodes).map(machine).collect(),
        several_nodes: pool.several_nodes,
        first_heartbeat: pool.first_heartbeat,
    }
}

/// Returns the pools whose attempts run on this machine.
fn local_pools(pools: &[MachinePool], executors: &[ExecutorKind]) -> Vec<MachinePool> {
    let is_local =
        |pool: &&MachinePool| executors.iter().any(|kind| kind.on_this_machine && kind.name == pool.executor);
    pools.iter().filter(is_local).cloned().collect()
}

/// Returns the resources of this machine that runs of this user may use: the sum of its pools. If pools overlap, the
/// sum is limited to the machine's total, but never below the largest pool, since some grants of the engine would be
/// impossible. Returns `None` without a pool.
fn this_machine(pools: &[MachinePool], cpus: u32, memory: u64) -> Option<PoolMachine> {
    let machines: Vec<&PoolMachine> = pools.iter().flat_map(|p| &p.machines).collect();
    let largest = machines.iter().map(|m| m.cpus).max()?;
    let together = machines.iter().fold(0, |sum: u32, m| sum.saturating_add(m.cpus));
    let gpus: BTreeMap<u32, Gpu> = machines.iter().flat_map(|m| &m.gpus).map(|g| (g.index, *g)).collect();
    Some(PoolMachine {
        name: "this machine".into(),
        cpus: together.min(largest.max(cpus)),
        memory: memory_together(&machines, memory),
        gpus: gpus.into_values().collect(),
    })
}

/// Returns the summed memory of the machines under the same limit; 0 means unknown.
fn memory_together(machines: &[&PoolMachine], memory: u64) -> u64 {
    if machines.iter().any(|m| m.memory == 0) {
        return 0;
    }
    let together = machines.iter().fold(0, |sum: u64, m| sum.saturating_add(m.memory));
    let largest = machines.iter().map(|m| m.memory).max().unwrap_or(0);
    if memory == 0 { together } else { together.min(largest.max(memory)) }
}

/// Reads rows of a table output, for a `for_each` over more rows than a manifest previews.
struct TableRows(Store);

impl OutputRowReader for TableRows {
    fn rows<'a>(&'a self, output: &'a Output, limit: u64) -> BoxFuture<'a, Result<Vec<Value>>> {
        Box::pin(async move {
            let folder = ScratchFolder::new()?;
            self.0.fetch_output(output, folder.path()).await?;
            trainyard_tables::rows_as_json(
                &folder.path().join("data.parquet"),
                0,
                usize::try_from(limit).unwrap_or(usize::MAX),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(name: &str, cpus: u32, memory: u64, gpus: &[u32]) -> MachinePool {
        let gpus = gpus.iter().map(|index| Gpu { index: *index, memory: 1 }).collect();
        MachinePool { name: name.into(), ..MachinePool::of_this_machine(cpus, memory, gpus) }
    }
    /// Returns the CPUs and bytes of a machine with 16 CPUs and 100 bytes.
    fn amounts(pools: &[MachinePool]) -> (u32, u64) {
        let machine = this_machine(pools, 16, 100).unwrap();
        (machine.cpus, machine.memory)
    }

    #[test]
    fn single_pool_is_the_limit() {
        assert_eq!(amounts(&[local("a", 4, 30, &[])]), (4, 30));
        assert_eq!(amounts(&[local("a", 32, 300, &[])]), (32, 300), "a pool may exceed the machine");
    }

    #[test]
    fn pools_add_up_to_at_most_the_machine() {
        assert_eq!(amounts(&[local("a", 8, 50, &[]), local("b", 8, 50, &[])]), (16, 100), "parts");
        assert_eq!(amounts(&[local("a", 16, 100, &[]), local("b", 16, 100, &[])]), (16, 100), "twice the same");
        assert_eq!(amounts(&[local("a", 1, 10, &[]), local("b", 2, 20, &[])]), (3, 30));
        assert_eq!(amounts(&[local("a", 1, 10, &[]), local("b", 20, 200, &[])]), (20, 200), "every grant is possible");
        assert_eq!(amounts(&[local("a", 1, 0, &[]), local("b", 2, 20, &[])]), (3, 0), "unknown admits any request");
        let machine = this_machine(&[local("a", 1, 0, &[1]), local("b", 1, 0, &[0, 1])], 16, 0).unwrap();
        assert_eq!(machine.gpus.iter().map(|g| g.index).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn remote_pools_are_excluded() {
        let executors = trainyard_runtime::executors::kinds();
        let elsewhere = MachinePool { executor: "slurm".into(), ..local("a", 64, 0, &[]) };
        assert!(this_machine(&local_pools(std::slice::from_ref(&elsewhere), &executors), 16, 100).is_none());
        assert_eq!(amounts(&local_pools(&[elsewhere, local("b", 2, 20, &[])], &executors)), (2, 20));
    }
}
