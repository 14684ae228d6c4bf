//! Runs attempts through the trait [`Executor`], for all combinations of capabilities.
//!
//! Each pool has one driver ([`driver`]), which submits concurrent attempts with one request and polls all states with
//! one request. Each attempt has its own task ([`attempt`]): on an executor that relays, it waits for the end
//! ([`relayed`]); on any other, it follows the attempt in the store ([`follower`]).

mod attempt;
mod conclusion;
mod deadlines;
mod driver;
mod follower;
mod relayed;
mod sources;
mod supervisor;
mod wait_reason;

pub(crate) use sources::Uploads;
pub(crate) use supervisor::{AttemptSupervisor, wait_for_control};

use crate::context::RunContext;
use crate::executors::{Capabilities, Executor};
use driver::{DriverRequest, PoolDriver};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tracing::Instrument as _;
use trainyard_core::Result;
use trainyard_core::attempt::FIRST_HEARTBEAT;

/// Drivers of a run, by pool. A driver starts with the first attempt of its pool, and ends with the run.
pub(crate) struct PoolClients {
    context: RunContext,
    pools: Mutex<BTreeMap<String, PoolClient>>,
    /// Sources that are already uploaded.
    pub uploads: Uploads,
}

/// Connection between the attempts of one pool and its executor.
#[derive(Clone)]
pub(crate) struct PoolClient {
    pub pool: Arc<str>,
    pub executor: Arc<dyn Executor>,
    pub capabilities: Capabilities,
    /// Time in which a started attempt must send its first heartbeat.
    pub first_heartbeat: Duration,
    requests: UnboundedSender<DriverRequest>,
    /// Whether users were notified that the pool takes no attempts now.
    notified: Arc<AtomicBool>,
}

impl PoolClients {
    pub fn new(context: &RunContext) -> Self {
        Self { context: context.clone(), pools: Mutex::default(), uploads: Uploads::default() }
    }

    /// Returns the client of a pool, and starts its driver on first use. Errors: invalid (there is no such pool).
    pub fn get(&self, pool: &str) -> Result<PoolClient> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = pools.get(pool) {
            return Ok(client.clone());
        }
        let executor = self.context.executors.get(pool)?;
        let (requests, receiver) = unbounded_channel();
        let driver = PoolDriver::new(pool, executor.clone(), self.context.observer.clone(), receiver);
        tokio::spawn(driver.run().in_current_span());
        let known = self.context.pools.iter().find(|known| known.name == pool);
        let first_heartbeat = known.map_or(FIRST_HEARTBEAT, |known| known.first_heartbeat);
        let (pool, capabilities) = (Arc::from(pool), executor.capabilities());
        let client = PoolClient { pool, executor, capabilities, first_heartbeat, requests, notified: Arc::default() };
        pools.insert(client.pool.to_string(), client.clone());
        Ok(client)
    }
}

impl PoolClient {
    /// Records that the executor takes no attempts. Returns true the first time since it last took one, so that users
    /// are notified once.
    fn mark_unavailable(&self) -> bool {
        !self.notified.swap(true, Ordering::Relaxed)
    }
    /// Records that the executor takes attempts again.
    fn mark_available(&self) {
        self.notified.store(false, Ordering::Relaxed);
    }
}
