//! Allocates the resources of a run's pools, and explains why a request does not fit.
//!
//! CPUs and memory are sums; GPUs are assigned by index. A request for several machines is granted completely or not at
//! all. Resources of other runs ([`ExternalUsage`]) reduce the free amounts, but not the amounts that could ever be
//! granted.

use crate::pool::{ExternalUsage, Grant, MachinePool, MachineShare, PoolMachine};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::resources::{ResourceAmounts, missing_tags, shortfalls};
use trainyard_spec::plan::ResourceRequest;

/// Pools and the resources taken from them.
#[derive(Debug, Clone)]
pub struct ResourceAllocator {
    /// By priority, highest first; ties in the order given.
    pools: Vec<PoolState>,
}

#[derive(Debug, Clone)]
struct PoolState {
    pool: MachinePool,
    machines: Vec<MachineUsage>,
}

#[derive(Debug, Clone, Default)]
struct MachineUsage {
    cpus: u32,
    memory: u64,
    gpus: BTreeSet<u32>,
    external: ExternalUsage,
}

/// A stage's request with the defaults of its kind filled in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResolvedRequest {
    /// `None`: all CPUs of a machine.
    cpus: Option<u32>,
    memory: u64,
    gpus: u32,
    gpu_memory: u64,
    machines: u32,
    tags: Vec<String>,
    /// Pools in which an attempt of this alternative was lost, timed out or got no machine, and the order in which that
    /// happened.
    deferred: BTreeMap<String, u32>,
}

/// Request of an attempt, or of each attempt of a group: alternatives in order. All of them get a grant, or none does.
pub type GroupRequest = Vec<Vec<ResolvedRequest>>;

impl ResolvedRequest {
    pub fn new(request: &ResourceRequest, all_cpus: bool) -> Self {
        let cpus = if all_cpus { request.cpus } else { Some(request.cpus.unwrap_or(1)) };
        let ResourceRequest { memory, gpus, gpu_memory, nodes, tags, .. } = request.clone();
        Self { cpus, memory, gpus, gpu_memory, machines: nodes.max(1), tags, deferred: BTreeMap::new() }
    }
    fn cpus_on(&self, machine: &PoolMachine) -> u32 {
        self.cpus.unwrap_or(machine.cpus)
    }
}

/// Defers an alternative in a pool: the next attempt tries all other combinations first.
pub fn defer(alternatives: &mut [ResolvedRequest], alternative: usize, pool: &str) {
    let last = alternatives.iter().flat_map(|request| request.deferred.values()).max().copied().unwrap_or(0);
    if let Some(request) = alternatives.get_mut(alternative) {
        request.deferred.insert(pool.to_string(), last.saturating_add(1));
    }
}

/// Returns the alternatives and pools, by index, in the order in which they are tried: by alternative, then by pool,
/// and then those that were deferred, the one deferred first again first.
fn placement_order(alternatives: &[ResolvedRequest], pools: &[&str]) -> Vec<(usize, usize)> {
    let mut order: Vec<(u32, usize, usize)> = Vec::with_capacity(alternatives.len() * pools.len());
    for (alternative, request) in alternatives.iter().enumerate() {
        let turn = |pool: &str| request.deferred.get(pool).copied().unwrap_or(0);
        order.extend(pools.iter().enumerate().map(|(at, pool)| (turn(pool), alternative, at)));
    }
    order.sort_unstable();
    order.into_iter().map(|(_, alternative, pool)| (alternative, pool)).collect()
}

impl ResourceAllocator {
    pub fn new(mut pools: Vec<MachinePool>) -> Self {
        pools.sort_by_key(|pool| std::cmp::Reverse(pool.priority));
        let state =
            |pool: MachinePool| PoolState { machines: vec![MachineUsage::default(); pool.machines.len()], pool };
        Self { pools: pools.into_iter().map(state).collect() }
    }

    /// Takes for each member the first alternative that fits now, from the first pool that can grant it; those that
    /// were deferred come last. Returns one grant per member, or takes nothing and returns `None` if one member does
    /// not fit. Skips the pools with indices in `closed`.
    pub fn allocate(&mut self, group: &[Vec<ResolvedRequest>], closed: &BTreeSet<usize>) -> Option<Vec<Grant>> {
        let Some((first, rest)) = group.split_first() else { return Some(Vec::new()) };
        let pools: Vec<&str> = self.pools.iter().map(|state| state.pool.name.as_str()).collect();
        let order = placement_order(first, &pools);
        for (alternative, at) in order.into_iter().filter(|(_, at)| !closed.contains(at)) {
            let Some(grant) = self.pools[at].allocate(&first[alternative]) else { continue };
            let grant = Grant { alternative, ..grant };
            if let Some(others) = self.allocate(rest, closed) {
                return Some([vec![grant], others].concat());
            }
            self.release(&grant);
        }
        None
    }

    /// Frees a grant of [`ResourceAllocator::allocate`].
    pub fn release(&mut self, grant: &Grant) {
        let Some(state) = self.pools.iter_mut().find(|s| s.pool.name == grant.pool) else { return };
        for share in &grant.shares {
            let Some(at) = state.pool.machines.iter().position(|m| m.name == share.machine) else { continue };
            let usage = &mut state.machines[at];
            usage.cpus -= share.cpus;
            usage.memory -= share.memory;
            for gpu in &share.gpus {
                usage.gpus.remove(gpu);
            }
        }
    }

    /// Sets the resources that other runs hold of a machine from now on. Returns whether anything changed.
    pub fn set_external_usage(&mut self, pool: &str, machine: &str, usage: ExternalUsage) -> bool {
        let Some(state) = self.pools.iter_mut().find(|s| s.pool.name == pool) else { return false };
        let Some(at) = state.pool.machines.iter().position(|m| m.name == machine) else { return false };
        let changed = state.machines[at].external != usage;
        state.machines[at].external = usage;
        changed
    }

    /// Returns the indices of the pools that could ever grant one of the alternatives of some member.
    pub fn eligible(&self, group: &[Vec<ResolvedRequest>]) -> BTreeSet<usize> {
        let can_grant =
            |at: &usize| group.iter().flatten().any(|request| self.pools[*at].unsatisfiable_reason(request).is_none());
        (0..self.pools.len()).filter(can_grant).collect()
    }

    /// Returns why the pools can never grant the request; `None` if they can.
    pub fn unsatisfiable(&self, group: &[Vec<ResolvedRequest>]) -> Option<String> {
        if self.pools.is_empty() {
            return Some("there is no pool".into());
        }
        for alternatives in group {
            let reasons =
                alternatives.iter().flat_map(|request| self.pools.iter().map(|s| s.unsatisfiable_reason(request)));
            if let Some(reasons) = reasons.collect::<Option<Vec<_>>>() {
                return Some(reasons.join("; "));
            }
        }
        let idle = || Self { pools: self.pools.iter().map(PoolState::idle).collect() };
        if group.len() > 1 && idle().allocate(group, &BTreeSet::new()).is_none() {
            return Some(format!(
                "its {} stages start together, but the pools are too small for all of them",
                group.len()
            ));
        }
        None
    }

    /// Returns why the request does not fit now, pool by pool.
    pub fn unavailable_reasons(&self, group: &[Vec<ResolvedRequest>]) -> String {
        let mut unique: Vec<String> = Vec::new();
        for alternatives in group {
            let fits = |request: &ResolvedRequest| {
                self.pools
                    .iter()
                    .any(|s| s.unsatisfiable_reason(request).is_none() && s.clone().allocate(request).is_some())
            };
            if group.len() > 1 && alternatives.iter().any(fits) {
                continue;
            }
            let reasons = alternatives.iter().flat_map(|request| {
                self.pools
                    .iter()
                    .map(|s| s.unsatisfiable_reason(request).unwrap_or_else(|| s.unavailable_reason(request)))
            });
            for reason in reasons {
                if !unique.contains(&reason) {
                    unique.push(reason);
                }
            }
        }
        if unique.is_empty() {
            unique.push(format!("its {} stages start together, but not all of them have room now", group.len()));
        }
        unique.join("; ")
    }

    /// Checks that the taken resources equal the sum of all grants in force, and that no machine is overbooked.
    #[cfg(test)]
    pub fn audit<'a>(&self, grants: impl Iterator<Item = &'a Grant> + Clone) {
        for state in &self.pools {
            for (machine, usage) in state.pool.machines.iter().zip(&state.machines) {
                let shares = || {
                    grants
                        .clone()
                        .filter(|g| g.pool == state.pool.name)
                        .flat_map(|g| &g.shares)
                        .filter(|s| s.machine == machine.name)
                };
                assert_eq!(usage.cpus, shares().map(|s| s.cpus).sum::<u32>());
                assert_eq!(usage.memory, shares().map(|s| s.memory).sum::<u64>());
                let gpus: Vec<u32> = shares().flat_map(|s| s.gpus.clone()).collect();
                assert_eq!(gpus.len(), usage.gpus.len(), "a GPU was allocated twice: {gpus:?}");
                assert!(usage.cpus <= machine.cpus && (machine.memory == 0 || usage.memory <= machine.memory));
            }
        }
    }
}

impl PoolState {
    fn idle(&self) -> Self {
        Self { pool: self.pool.clone(), machines: vec![MachineUsage::default(); self.machines.len()] }
    }
    fn allocate(&mut self, request: &ResolvedRequest) -> Option<Grant> {
        if self.unsatisfiable_reason(request).is_some() {
            return None;
        }
        let mut shares = Vec::new();
        for (machine, usage) in self.pool.machines.iter().zip(&self.machines) {
            if let Some(share) = usage.share(machine, request) {
                shares.push(share);
                if shares.len() == request.machines as usize {
                    break;
                }
            }
        }
        if shares.len() < request.machines as usize {
            return None;
        }
        for share in &shares {
            if let Some(at) = self.pool.machines.iter().position(|m| m.name == share.machine) {
                let usage = &mut self.machines[at];
                usage.cpus += share.cpus;
                usage.memory += share.memory;
                usage.gpus.extend(&share.gpus);
            }
        }
        Some(Grant::new(&self.pool.name, &self.pool.executor, shares))
    }

    /// Returns why the pool can never grant the request, even when idle.
    fn unsatisfiable_reason(&self, request: &ResolvedRequest) -> Option<String> {
        let name = &self.pool.name;
        if let Some(missing) = missing_tags(&request.tags, &self.pool.tags) {
            return Some(format!("pool `{name}` {missing}"));
        }
        if request.machines > 1 && !self.pool.several_nodes {
            let executor = &self.pool.executor;
            return Some(format!("pool `{name}`: executor `{executor}` runs a stage on one machine"));
        }
        let idle = MachineUsage::default();
        let suitable = self.pool.machines.iter().filter(|m| idle.share(m, request).is_some()).count();
        if suitable >= request.machines as usize {
            return None;
        }
        let reason = if request.machines > 1 && suitable > 0 {
            let count = if suitable == 1 { "1 is" } else { &format!("{suitable} are") };
            format!("needs {} machines; {count} large enough", request.machines)
        } else {
            self.pool
                .machines
                .iter()
                .map(|m| idle.shortfall_text(m, request))
                .min()
                .unwrap_or_else(|| "it has no machine".into())
        };
        Some(format!("pool `{name}`: {reason}"))
    }

    fn unavailable_reason(&self, request: &ResolvedRequest) -> String {
        let free = self.pool.machines.iter().zip(&self.machines).filter(|(m, t)| t.share(m, request).is_some()).count();
        let shortfall = self
            .pool
            .machines
            .iter()
            .zip(&self.machines)
            .map(|(m, t)| t.shortfall_text(m, request))
            .find(|l| !l.is_empty());
        match (request.machines, shortfall) {
            (1, Some(shortfall)) => format!("pool `{}` is busy: {shortfall}", self.pool.name),
            (1, None) => format!("pool `{}` is reserved for a stage that has waited longer", self.pool.name),
            (n, _) => format!("pool `{}` is busy: needs {n} machines; {free} free", self.pool.name),
        }
    }
}

impl MachineUsage {
    fn free_cpus(&self, machine: &PoolMachine) -> u32 {
        machine.cpus.saturating_sub(self.cpus).saturating_sub(self.external.cpus)
    }
    fn free_gpus<'a>(
        &'a self,
        machine: &'a PoolMachine,
        request: &'a ResolvedRequest,
    ) -> impl Iterator<Item = u32> + 'a {
        let usable = machine.gpus.iter().filter(|g| g.memory == 0 || g.memory >= request.gpu_memory);
        usable.map(|g| g.index).filter(|i| !self.gpus.contains(i) && !self.external.gpus.contains(i))
    }
    fn share(&self, machine: &PoolMachine, request: &ResolvedRequest) -> Option<MachineShare> {
        self.shortfalls(machine, request).is_empty().then(|| MachineShare {
            machine: machine.name.clone(),
            cpus: request.cpus_on(machine),
            memory: request.memory,
            gpus: self.free_gpus(machine, request).take(request.gpus as usize).collect(),
        })
    }
    /// Returns the missing resources of this machine; empty if the request fits.
    fn shortfall_text(&self, machine: &PoolMachine, request: &ResolvedRequest) -> String {
        self.shortfalls(machine, request).join(", ")
    }
    fn shortfalls(&self, machine: &PoolMachine, request: &ResolvedRequest) -> Vec<String> {
        let gpus = |usage: &Self| u32::try_from(usage.free_gpus(machine, request).count()).unwrap_or(u32::MAX);
        let need = ResourceAmounts { cpus: request.cpus_on(machine), memory: request.memory, gpus: request.gpus };
        let total = ResourceAmounts { cpus: machine.cpus, memory: machine.memory, gpus: gpus(&Self::default()) };
        let free = ResourceAmounts {
            cpus: self.free_cpus(machine),
            memory: machine.memory.saturating_sub(self.memory).saturating_sub(self.external.memory),
            gpus: gpus(self),
        };
        shortfalls(need, request.gpu_memory, free, total)
    }
}

#[cfg(test)]
#[path = "allocator_tests.rs"]
mod tests;
