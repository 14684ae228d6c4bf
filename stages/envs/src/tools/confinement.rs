//! The bounds of a process that runs what somebody else wrote: a tool's program, a statement.
//!
//! The process confines itself before it begins: address space, no core files, no files written, death with its parent. Address
//! space, since an allocation beyond it fails at once, while resident memory would have to be watched. Refuses: a limit on time;
//! the owner kills what is late.

use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// What such a process finds in its environment: an allocator that reserves ahead would meet the limit on address space before the
/// work does (the first value is in KiB).
pub const ENVIRONMENT: [(&str, &str); 2] = [("MIMALLOC_ARENA_RESERVE", "16384"), ("MALLOC_ARENA_MAX", "1")];

/// Signals by which a process dies of what it runs: SIGILL, SIGABRT (a failed allocation), SIGBUS, SIGSEGV.
const OWN_SIGNALS: [i32; 4] = [4, 6, 7, 11];

/// Bounds this process for good. `memory_bytes` is what it may add to the address space that it has now. It dies with the thread
/// that started it.
pub fn confine(memory_bytes: u64) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    bound(Resource::Core, 0)?;
    bound(Resource::Fsize, 0)?;
    bound(Resource::As, address_space()?.saturating_add(memory_bytes))
}

/// A lower limit that is there already stays: few may raise it.
fn bound(resource: Resource, amount: u64) -> io::Result<()> {
    let amount = getrlimit(resource).maximum.map_or(amount, |most| most.min(amount));
    setrlimit(resource, Rlimit { current: Some(amount), maximum: Some(amount) })?;
    Ok(())
}

/// Bytes of address space in use now.
fn address_space() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Ok(pages * rustix::param::page_size() as u64)
}

/// Whether a process ended itself by an abort, a bad memory access or a failed allocation, not by a kill from outside.
pub fn died_of_its_work(status: ExitStatus) -> bool {
    status.signal().is_some_and(|signal| OWN_SIGNALS.contains(&signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_from_outside_is_not_of_its_doing() {
        let ended = |raw| died_of_its_work(ExitStatus::from_raw(raw));
        assert!(ended(6) && ended(11));
        assert!(!ended(9) && !ended(15) && !ended(0) && !ended(6 << 8));
    }
}
