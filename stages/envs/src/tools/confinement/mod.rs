//! Limits the current process before it runs a third-party program or SQL statement.
//!
//! [`confine`] bounds its address space; it writes neither core files nor other files, and it dies with its parent.
//! What only computes (`isolation`) loses all files, sockets, processes and threads as well. A CPython keeps some of
//! them (`crate::tools::cpython::sandbox`). Both use Landlock (`files`) and seccomp (`system_calls`).
//!
//! We limit address space rather than resident memory because an allocation beyond the limit fails at once. Time is not
//! limited here: the parent kills a process that is late.

pub(crate) mod files;
pub(crate) mod isolation;
pub(crate) mod support;
pub(crate) mod system_calls;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// Environment of a confined process. Allocators that reserve memory ahead would reach the address-space limit before
/// the program does (the first value is in KiB).
pub const ENVIRONMENT: [(&str, &str); 2] = [("MIMALLOC_ARENA_RESERVE", "16384"), ("MALLOC_ARENA_MAX", "1")];

/// Signals of crashes that a process causes itself: SIGILL, SIGABRT (a failed allocation), SIGBUS, SIGSEGV.
const CRASH_SIGNALS: [i32; 4] = [4, 6, 7, 11];

/// Limits this process permanently. The process may add at most `memory_bytes` to its present address space, and is
/// killed when the thread that started it ends.
pub fn confine(memory_bytes: u64) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    bound(Resource::Core, 0)?;
    bound(Resource::Fsize, 0)?;
    bound(Resource::As, address_space()?.saturating_add(memory_bytes))
}

/// Lowers a limit permanently. Keeps a lower limit that is already set, because raising a limit may not be permitted.
pub fn bound(resource: Resource, amount: u64) -> io::Result<()> {
    let amount = getrlimit(resource).maximum.map_or(amount, |max| max.min(amount));
    setrlimit(resource, Rlimit { current: Some(amount), maximum: Some(amount) })?;
    Ok(())
}

/// Returns the size of the address space of this process in bytes.
fn address_space() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Ok(pages * rustix::param::page_size() as u64)
}

/// Returns whether a process crashed (abort, bad memory access, failed allocation) rather than being killed.
pub fn crashed(status: ExitStatus) -> bool {
    status.signal().is_some_and(|signal| CRASH_SIGNALS.contains(&signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_kill_is_not_a_crash() {
        let ended = |raw| crashed(ExitStatus::from_raw(raw));
        assert!(ended(6) && ended(11));
        assert!(!ended(9) && !ended(15) && !ended(0) && !ended(6 << 8));
    }
}
