//! Builds the world of a run: store, pools, executors, stage kinds, time and chance.

use crate::in_process::InProcessStages;
use crate::session::{self, Session};
use crate::wiring;
use futures::future::BoxFuture;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use trainyard_core::{Chance, Clock, Error, Output, Result};
use trainyard_engine::{Gpu, Machine, Pool};
use trainyard_runtime::executors::{Launcher, standard};
use trainyard_runtime::slots::Slots;
use trainyard_runtime::{Observer, RowReader, World};
use trainyard_spec::site;
use trainyard_store::Store;

/// This program, as the attempts of its stages; `run` stages get the same environment.
fn launcher(program: PathBuf) -> Launcher {
    let env = trainyard_lm::threads::ENVIRONMENT.iter().map(|(name, value)| (name.into(), value.into())).collect();
    Launcher { env, ..Launcher::new(program) }
}

/// The world of this session's runs. `observer` sees what happens.
pub fn build(session: &Session, clock: Arc<dyn Clock>, observer: Arc<dyn Observer>) -> Result<World> {
    let registry = Arc::new(wiring::registry()?);
    let program = std::env::current_exe().map_err(|e| Error::bug(format!("this program does not know where it is: {e}")))?;
    let pools: Vec<Pool> = session.site.pools.iter().map(pool).collect();
    let machine = pools.iter().filter(|p| p.executor == "local").flat_map(|p| &p.machines).next().cloned();
    let slots = machine.map(|m| Slots::new(session::home().join("slots.json"), m)).transpose()?;
    Ok(World {
        store: session.store.clone(),
        pools,
        executors: standard(&launcher(program), slots.as_ref()),
        catalogue: registry.clone(),
        in_process: Arc::new(InProcessStages { store: session.store.clone(), registry, handle: session.handle() }),
        rows: Arc::new(TableRows(session.store.clone())),
        secrets: session.site.secrets.clone(),
        chance: chance(clock.as_ref()),
        clock,
        observer,
    })
}

/// Chance for run ids and writer names only: nothing that is digested may come from it.
pub fn chance(clock: &dyn Clock) -> Chance {
    Chance::new((clock.unix_millis() as u64).rotate_left(20) ^ u64::from(std::process::id()))
}

/// The engine's form of a site's pool.
fn pool(pool: &site::Pool) -> Pool {
    let gpus: Vec<Gpu> = pool.gpus.iter().map(|g| Gpu { index: g.index, memory: g.memory }).collect();
    let machine = |i: u32| Machine {
        name: if pool.nodes == 1 { pool.name.clone() } else { format!("{}-{i}", pool.name) },
        cpus: pool.cpus,
        memory: pool.memory,
        gpus: gpus.clone(),
    };
    Pool {
        name: pool.name.clone(),
        executor: pool.executor.clone(),
        priority: pool.priority,
        tags: pool.tags.clone(),
        machines: (0..pool.nodes).map(machine).collect(),
    }
}

/// Rows of a table output, for a `for_each` over more rows than a manifest previews.
struct TableRows(Store);

impl RowReader for TableRows {
    fn rows<'a>(&'a self, output: &'a Output, limit: u64) -> BoxFuture<'a, Result<Vec<Value>>> {
        Box::pin(async move {
            let folder = tempfile::tempdir().map_err(|e| Error::retryable(format!("no scratch folder: {e}")))?;
            self.0.fetch_output(output, folder.path()).await?;
            trainyard_tables::rows_as_json(&folder.path().join("data.parquet"), 0, usize::try_from(limit).unwrap_or(usize::MAX))
        })
    }
}
