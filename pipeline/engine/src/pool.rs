//! What there is to run on: pools of machines with amounts and tags, and what an attempt gets of them.
//!
//! Amounts are a ledger (cpus, memory) except GPUs, which are given by index. Refuses: guessing; a machine has what the site
//! file or the probe of this machine says.

use serde::Serialize;

/// Machines of one executor that are alike enough to be asked for together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pool {
    pub name: String,
    /// Name in the executors' registry, e.g. `local`.
    pub executor: String,
    /// Higher is tried first.
    pub priority: i32,
    pub tags: Vec<String>,
    pub machines: Vec<Machine>,
}

/// One machine of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    pub name: String,
    pub cpus: u32,
    /// Bytes; 0 = unknown, admits any request.
    pub memory: u64,
    pub gpus: Vec<Gpu>,
}

/// One GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Gpu {
    pub index: u32,
    /// Bytes; 0 = unknown, admits any request.
    pub memory: u64,
}

impl Pool {
    /// The pool of one machine, as there is without a site file.
    pub fn of_this_machine(cpus: u32, memory: u64, gpus: Vec<Gpu>) -> Self {
        Self {
            name: "local".into(),
            executor: "local".into(),
            priority: 0,
            tags: Vec::new(),
            machines: vec![Machine { name: "this".into(), cpus, memory, gpus }],
        }
    }
}

/// What one attempt was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grant {
    /// Name of the pool; `in_process` for kinds that run inside the engine's process.
    pub pool: String,
    pub executor: String,
    /// One entry for each machine; empty in-process.
    pub shares: Vec<Share>,
}

/// A part of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Share {
    pub machine: String,
    pub cpus: u32,
    /// Bytes; 0 = did not ask.
    pub memory: u64,
    /// Indices.
    pub gpus: Vec<u32>,
}

/// What others (other runs of this user) hold of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outside {
    pub cpus: u32,
    pub memory: u64,
    pub gpus: Vec<u32>,
}

/// The name that stands for the engine's own process where a pool is expected.
pub const IN_PROCESS: &str = "in_process";

impl Grant {
    /// Runs inside the engine's process.
    pub fn in_process() -> Self {
        Self { pool: IN_PROCESS.into(), executor: IN_PROCESS.into(), shares: Vec::new() }
    }
    pub fn is_in_process(&self) -> bool {
        self.executor == IN_PROCESS
    }
    /// The journal's form.
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
