//! The attempt's side of being supervised: `cancel` lines and the end of stdin.
//!
//! The end of stdin means that the engine died: the process ends within 2 s even if the stage does not look at its token, and
//! the parent-death signal ends it if even this thread is stuck.

use std::io::BufRead as _;
use std::time::Duration;
use trainyard_api::CancelToken;

/// Watches stdin on a thread of its own.
pub fn follow_stdin(cancel: CancelToken) {
    #[cfg(target_os = "linux")]
    // A container may forbid it; stdin still tells.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            match line {
                Ok(line) if line.trim() == "cancel" => cancel.cancel(),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        cancel.cancel();
        std::thread::sleep(Duration::from_millis(1_500));
        std::process::exit(130);
    });
}

/// Highest resident memory of this process in bytes, where the system tells.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
