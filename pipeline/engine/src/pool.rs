//! Describes pools of machines with their resources and tags, and the grants of resources to attempts.

use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::FIRST_HEARTBEAT;

/// Machines that one executor reaches and that have the same tags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachinePool {
    /// Name in the site file.
    pub name: String,
    /// Name of the executor, such as `local`.
    pub executor: String,
    /// Pools of higher priority are tried first.
    pub priority: i32,
    /// Tags that a request may name.
    pub tags: Vec<String>,
    /// Machines; a request for several takes the first that fit.
    pub machines: Vec<PoolMachine>,
    /// Whether the executor can run one stage on several machines.
    pub several_nodes: bool,
    /// Time in which a started attempt must send its first heartbeat.
    #[serde(skip)]
    pub first_heartbeat: Duration,
}

/// One machine of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolMachine {
    /// Unique within its pool.
    pub name: String,
    /// Number of CPUs.
    pub cpus: u32,
    /// Bytes of memory; 0 = unknown, admits any request.
    pub memory: u64,
    pub gpus: Vec<Gpu>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// Index on the machine.
    pub index: u32,
    /// Bytes of memory; 0 = unknown, admits any request.
    pub memory: u64,
}

impl MachinePool {
    /// Returns the pool `local` with one machine, the default without a site file. `memory` is in bytes.
    pub fn of_this_machine(cpus: u32, memory: u64, gpus: Vec<Gpu>) -> Self {
        Self {
            name: "local".into(),
            executor: "local".into(),
            priority: 0,
            tags: Vec::new(),
            machines: vec![PoolMachine { name: "this".into(), cpus, memory, gpus }],
            several_nodes: false,
            first_heartbeat: FIRST_HEARTBEAT,
        }
    }
}

/// Resources of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grant {
    /// Name of the pool; `in_process` for kinds that run inside the engine's process.
    pub pool: String,
    /// Name of the executor.
    pub executor: String,
    /// Shares, one for each machine; empty in-process.
    pub shares: Vec<MachineShare>,
    /// Grants of the whole group of an attempt, of which this is number `at`. An external allocator serves all of the
    /// group or none.
    #[serde(skip)]
    pub together: Arc<[Grant]>,
    /// Index in `together`; 0 for an attempt alone.
    #[serde(skip)]
    pub at: usize,
    /// Index of the granted alternative of the request; 0 for an attempt that an earlier engine started.
    #[serde(skip)]
    pub alternative: usize,
}

/// A part of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachineShare {
    pub machine: String,
    pub cpus: u32,
    /// Bytes of memory; 0 = not requested.
    pub memory: u64,
    /// Indices of the GPUs.
    pub gpus: Vec<u32>,
}

/// Resources that other runs of this user hold of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExternalUsage {
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Indices of the GPUs.
    pub gpus: Vec<u32>,
}

/// Pool and executor name of attempts inside the engine's own process.
pub const IN_PROCESS: &str = "in_process";

impl Grant {
    /// Returns the grant of an attempt alone.
    pub fn new(pool: impl Into<String>, executor: impl Into<String>, shares: Vec<MachineShare>) -> Self {
        Self { pool: pool.into(), executor: executor.into(), shares, together: Arc::default(), at: 0, alternative: 0 }
    }
    /// Returns the grant of a kind that runs inside the engine's process: no pool, no shares.
    pub fn in_process() -> Self {
        Self::new(IN_PROCESS, IN_PROCESS, Vec::new())
    }
    /// Returns whether the attempt runs inside the engine's process.
    pub fn is_in_process(&self) -> bool {
        self.executor == IN_PROCESS
    }
    /// Returns the journal's short form.
    pub fn summary(&self) -> trainyard_core::event::GrantSummary {
        let first = self.shares.first();
        trainyard_core::event::GrantSummary {
            cpus: first.map_or(1, |s| s.cpus),
            memory: first.map_or(0, |s| s.memory),
            gpus: first.map_or_else(Vec::new, |s| s.gpus.clone()),
            machines: self.shares.iter().map(|s| s.machine.clone()).collect(),
        }
    }
}
