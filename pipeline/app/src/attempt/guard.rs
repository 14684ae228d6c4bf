//! Runs `trainyard attempt guard`, a process that kills the processes of a detached attempt after the attempt itself
//! was killed.
//!
//! An attempt ends its commands itself, but SIGKILL leaves no time for that and may kill only the attempt's own
//! process, as Ray does when it loses a node. The guard holds the read end of a pipe from the attempt, which closes
//! when the attempt ends. Its environment and arguments contain neither the attempt's mark nor its URL, so it
//! does not kill itself.

use std::io::{BufRead as _, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use trainyard_core::{Error, Result};
use trainyard_runtime::executors::{MARK, NODE, SUPERVISED, kill_marked};

/// Argument that starts a guard, in place of an attempt's URL.
const GUARD: &str = "guard";

pub fn is_guard(url: &str) -> bool {
    url == GUARD
}

/// Runs the guard. It reads the mark from the first line of its input and, at the end of the input, kills all processes
/// with the mark.
pub fn main() -> Result<()> {
    let broken = |e: std::io::Error| Error::bug(format!("the guard cannot read its mark: {e}"));
    let mut input = std::io::stdin().lock();
    let mut mark = String::new();
    input.read_line(&mut mark).map_err(broken)?;
    let mut rest = Vec::new();
    // An error also means that the attempt has ended.
    let _ = input.read_to_end(&mut rest);
    let mark = mark.trim_end();
    if !mark.is_empty() {
        kill_marked(mark);
    }
    Ok(())
}

/// Handle of a running guard. Dropping it closes the pipe and waits for the guard to end.
pub struct Guard {
    child: Child,
}

impl Guard {
    /// Starts a guard of the processes with this mark. Returns `None` if it cannot be started; the attempt continues,
    /// since the guard matters only if the attempt is killed.
    pub fn of(mark: &str) -> Option<Self> {
        Self::start(mark).inspect_err(|error| tracing::info!(%error, "the attempt has no guard")).ok()
    }

    fn start(mark: &str) -> std::io::Result<Self> {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["attempt", GUARD]).process_group(0).env_remove(MARK).env_remove(NODE).env_remove(SUPERVISED);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        if let Some(pipe) = &mut child.stdin {
            writeln!(pipe, "{mark}")?;
        }
        Ok(Self { child })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The guard exits at once, or was killed with the other processes.
        let _ = self.child.wait();
    }
}
