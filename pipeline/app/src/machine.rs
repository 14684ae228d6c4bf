//! Detects the CPUs, memory and GPUs of this machine. Inside a container, the limits of the container apply.

pub mod gpus;

use trainyard_spec::site::SitePool;

/// Returns the default pool of a site, with all resources of this machine.
pub fn pool() -> SitePool {
    SitePool::local(cpus(), memory(), gpus::gpus())
}

/// Returns the number of CPUs that this process may use, or 1 if unknown.
pub fn cpus() -> u32 {
    // `available_parallelism` respects affinity and cgroup quotas.
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1))
}

/// Returns the bytes of memory, at most the cgroup limit, or 0 if unknown.
pub fn memory() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = info.lines().find_map(|l| l.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
    let total = kib.unwrap_or(0) * 1024;
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|t| t.trim().parse::<u64>().ok());
    limit.map_or(total, |l| l.min(total))
}
