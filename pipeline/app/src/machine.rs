//! What this machine has: cpus, memory, GPUs. Inside a container the container's limits count.

use std::process::Command;
use trainyard_spec::site::{Gpu, Pool};

/// The pool of a site that names none.
pub fn pool() -> Pool {
    Pool::local(cpus(), memory(), gpus())
}

/// CPUs that this process may use; 1 if the system does not say.
pub fn cpus() -> u32 {
    // `available_parallelism` reads affinity and cgroup quotas.
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1))
}

/// Bytes of memory; 0 = unknown.
pub fn memory() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = info.lines().find_map(|l| l.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
    let total = kib.unwrap_or(0) * 1024;
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|t| t.trim().parse::<u64>().ok());
    limit.map_or(total, |l| l.min(total))
}

/// The GPUs that the NVIDIA driver lists; none without a driver.
fn gpus() -> Vec<Gpu> {
    let listed =
        Command::new("nvidia-smi").args(["--query-gpu=index,memory.total", "--format=csv,noheader,nounits"]).output();
    let text = listed
        .ok()
        .filter(|o| o.status.success())
        .map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
        .unwrap_or_default();
    parse_gpus(&text)
}

fn parse_gpus(text: &str) -> Vec<Gpu> {
    let one = |line: &str| {
        let (index, mebibytes) = line.split_once(',')?;
        Some(Gpu { index: index.trim().parse().ok()?, memory: mebibytes.trim().parse::<u64>().ok()? << 20 })
    };
    text.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_read_by_index_and_memory() {
        let gpus = parse_gpus("0, 143771\n1, 143771\nnonsense\n");
        assert_eq!(gpus.iter().map(|g| (g.index, g.memory >> 20)).collect::<Vec<_>>(), [(0, 143_771), (1, 143_771)]);
    }
}
