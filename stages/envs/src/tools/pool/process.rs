//! Worker process from its owner's side: started with a clean environment, reached by frames, killed when late.
//!
//! A worker that supervises CPython gets a folder for the files of its sessions, and a grace period to end them.

use super::key::PoolKey;
use crate::tools::confinement::{ENVIRONMENT, crashed};
use crate::tools::cpython::setup::CpythonSetup;
use crate::tools::wire::{self, ToolWorkerReply};
use crate::tools::worker_program::{WORKER_VARIABLE, WorkerProgram};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use trainyard_core::{Error, Result};

/// Time for a supervisor to end its processes after its input is closed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// Why a worker gave no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCause {
    /// The worker did not answer in time, and we killed it.
    TimedOut,
    /// The worker died of the program it ran: an abort, a bad memory access or a failed allocation.
    Crashed,
    /// Any other cause: it was killed externally or did not understand the protocol.
    External,
    /// The pool is shutting down.
    Shutdown,
}

pub struct ToolWorkerProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    buffer: Vec<u8>,
    /// Scratch folder of a supervisor, removed after it has ended.
    scratch: Option<TempDir>,
}

impl ToolWorkerProcess {
    /// Starts a worker with an empty environment, so that no program can read this process's secrets.
    pub fn start(program: &WorkerProgram, key: &PoolKey) -> Result<Self> {
        let scratch = key.cpython.as_ref().map(|_| tempfile::Builder::new().prefix("trainyard-python-").tempdir());
        let scratch = scratch.transpose().map_err(|e| Error::lost(format!("cannot make a folder for CPython: {e}")))?;
        let mut command = Command::new(&program.0);
        command.arg("tool-worker").env_clear().envs(ENVIRONMENT);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if key.cpython.is_some() {
            // A signal to the whole group would leave files; a supervisor ends when the pipe is closed.
            command.process_group(0);
        }
        let failed = |e: io::Error| {
            Error::lost(format!("cannot start the tool worker `{}`: {e}", program.0.display()))
                .help(format!("set {WORKER_VARIABLE} to a program that serves tools"))
        };
        let mut child = command.spawn().map_err(failed)?;
        let (stdin, Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::bug("a tool worker was started without pipes"));
        };
        Self { child, stdin, stdout, buffer: Vec::new(), scratch }.send_setup(key).map_err(failed)
    }
    /// Sends a fresh worker its setup. On failure the drop kills it and waits for it.
    fn send_setup(mut self, key: &PoolKey) -> io::Result<Self> {
        let setup = key.cpython.as_ref().zip(self.scratch.as_ref()).map(|(installation, scratch)| CpythonSetup {
            installation: installation.clone(),
            scratch: scratch.path().to_path_buf(),
        });
        self.send(&wire::encode_hello(&key.limits, setup.as_ref()))?;
        Ok(self)
    }
    pub fn id(&self) -> u32 {
        self.child.id()
    }
    /// Sends a batch. On an error the worker is dead, and [`ToolWorkerProcess::replies`] returns the cause.
    pub fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        let stdin = self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        wire::write_frame(stdin, payload)
    }
    /// Waits up to `patience` for the next replies, polling `shut`.
    pub fn replies(&mut self, patience: Duration, shut: impl Fn() -> bool) -> Result<Vec<ToolWorkerReply>, ExitCause> {
        let mut left = patience;
        loop {
            if let Some(frame) = wire::take_frame(&mut self.buffer) {
                return wire::decode_replies(&frame).ok_or_else(|| self.end(ExitCause::External));
            }
            let slice = left.min(Duration::from_millis(100));
            match self.readable(slice) {
                Ok(true) => match self.fill() {
                    Ok(0) | Err(_) => return Err(self.exit_cause()),
                    Ok(_) => {}
                },
                Ok(false) if shut() => return Err(self.end(ExitCause::Shutdown)),
                Ok(false) if left <= slice => return Err(self.end(ExitCause::TimedOut)),
                Ok(false) => left -= slice,
                Err(_) => return Err(self.end(ExitCause::External)),
            }
        }
    }
    fn readable(&self, within: Duration) -> io::Result<bool> {
        let timeout = Timespec {
            tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(within.subsec_nanos()),
        };
        match poll(&mut [PollFd::new(&self.stdout, PollFlags::IN)], Some(&timeout)) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
    fn fill(&mut self) -> io::Result<usize> {
        let mut chunk = [0; 1 << 16];
        let count = self.stdout.read(&mut chunk)?;
        self.buffer.extend_from_slice(&chunk[..count]);
        Ok(count)
    }
    /// Kills the worker for a known reason.
    fn end(&mut self, reason: ExitCause) -> ExitCause {
        drop(self.stdin.take());
        if self.scratch.is_some() {
            // Until it has closed its end of the pipe.
            while self.readable(SHUTDOWN_GRACE).unwrap_or(false) && self.fill().is_ok_and(|count| count > 0) {}
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        reason
    }
    /// Determines from its exit status why a worker died.
    fn exit_cause(&mut self) -> ExitCause {
        match self.child.wait() {
            // A supervisor runs no programs itself.
            Ok(status) if self.scratch.is_none() && worker_crashed(status) => ExitCause::Crashed,
            _ => ExitCause::External,
        }
    }
}

/// Returns whether the worker died by its own doing, or with the exit status of an interpreter that ran out of memory.
fn worker_crashed(status: ExitStatus) -> bool {
    crashed(status) || status.code() == Some(monty_types::OOM_EXIT_CODE)
}

impl Drop for ToolWorkerProcess {
    fn drop(&mut self) {
        self.end(ExitCause::Shutdown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::ToolLimits;
    use std::path::Path;

    #[test]
    fn unresponsive_worker_is_killed_and_reaped() {
        let mut command = Command::new("sh");
        command.args(["-c", "exec <&-; echo; exec sleep 1000"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut process = ToolWorkerProcess { child, stdin, stdout, buffer: Vec::new(), scratch: None };
        let entry = format!("/proc/{}", process.id());
        // This line is printed once it has closed its end of the pipe.
        assert_eq!(process.fill().unwrap(), 1);
        assert!(process.send_setup(&PoolKey { limits: ToolLimits::default(), cpython: None }).is_err());
        assert!(!Path::new(&entry).exists(), "it is neither running nor a zombie");
    }
}
