//! The attempt's side of being supervised: the lines `cancel` and `timeout`, and the end of stdin.
//!
//! Only an executor that holds the other end of stdin supervises in this way, and it says so ([`SUPERVISED`]). The end
//! of stdin then means that the engine died: within 2 s all that the attempt started ends, the commands of a `run:`
//! stage and what left its process group included, even if the stage ignores its token. A parent-death signal would be
//! faster, but it kills this process before it can end its children.

use std::io::BufRead as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use trainyard_api::CancelToken;
use trainyard_core::{Error, ErrorKind};
use trainyard_runtime::executors::{SUPERVISED, kill_marked};

/// Set when the engine stops the attempt because its time is up.
static TIMED_OUT: AtomicBool = AtomicBool::new(false);

/// How long the stage gets to stop by itself.
const GRACE: Duration = Duration::from_millis(1_500);

/// Watches stdin on a thread of its own, if the executor of this attempt holds its other end. The variable may be
/// inherited from another attempt, hence its value.
pub fn follow_stdin(url: &str, cancel: CancelToken) {
    if std::env::var_os(SUPERVISED).is_none_or(|held| held != *url) {
        return;
    }
    let mark = url.to_string();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            match line {
                Ok(line) if line.trim() == "cancel" => cancel.cancel(),
                Ok(line) if line.trim() == "timeout" => {
                    TIMED_OUT.store(true, Ordering::SeqCst);
                    cancel.cancel();
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        cancel.cancel();
        std::thread::sleep(GRACE);
        kill_marked(&mark);
        end_group();
    });
}

/// A stage only knows that it was stopped; this names the timeout where that was the reason.
pub fn name_timeout(error: Error) -> Error {
    if error.kind == ErrorKind::Cancelled && TIMED_OUT.load(Ordering::SeqCst) {
        return Error::cancelled("the attempt was stopped at its timeout").help("raise `timeout`");
    }
    error
}

/// Ends this process, and its group if it leads one (executors start attempts so).
fn end_group() -> ! {
    if rustix::process::getpgrp() == rustix::process::getpid() {
        // Includes this process; the exit below is for systems that refuse.
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::KILL);
    }
    std::process::exit(130)
}

/// Highest resident memory of this process in bytes, where the system tells.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
