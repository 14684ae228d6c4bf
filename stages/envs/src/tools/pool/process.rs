//! Starts worker processes with a clean environment.
//!
//! A worker that supervises CPython gets a folder for the files of its sessions, and a grace period to end its
//! processes.

use super::key::{PoolKey, WorkerKind};
use crate::tools::confinement::{ENVIRONMENT, crashed};
use crate::tools::cpython::setup::CpythonSetup;
use crate::tools::hello::WorkerSetup;
use crate::tools::wire::MAX_FRAME;
use crate::tools::worker_program::{WORKER_VARIABLE, WorkerProgram};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;
use trainyard_core::{Error, Result};
use trainyard_process::{ChildProgram, Framing, GracePeriods};

/// Time that a supervisor has to end its processes after its input is closed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// Starts a worker with a minimal environment, so that no program can read this process's secrets. Returns the worker
/// and the setup that its first frame must contain, if its kind has one.
pub fn start(program: &WorkerProgram, key: &PoolKey) -> Result<(ChildProgram, Option<WorkerSetup>)> {
    let scratch = key.installation().map(|_| tempfile::Builder::new().prefix("trainyard-python-").tempdir());
    let scratch = scratch.transpose().map_err(|e| Error::lost(format!("cannot make a folder for CPython: {e}")))?;
    let mut command = Command::new(&program.0);
    command.arg("tool-worker").env_clear().envs(ENVIRONMENT);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    if key.installation().is_some() {
        // A signal to the group of this process would end the supervisor before it removes its files; in a separate
        // group, it ends when the pipe is closed.
        command.process_group(0);
    }
    let failed = |e: io::Error| {
        Error::lost(format!("cannot start the tool worker `{}`: {e}", program.0.display()))
            .help(format!("set {WORKER_VARIABLE} to a program that serves tools"))
    };
    let child = command.spawn().map_err(failed)?;
    let setup = match (&key.kind, &scratch) {
        (WorkerKind::Cpython(installation), Some(scratch)) => Some(WorkerSetup::Cpython(CpythonSetup {
            installation: installation.clone(),
            scratch: scratch.path().to_path_buf(),
        })),
        (WorkerKind::Sql(limits), _) => Some(WorkerSetup::Sql(*limits)),
        _ => None,
    };
    let period = if scratch.is_some() { SHUTDOWN_GRACE } else { Duration::ZERO };
    let grace = GracePeriods { killed: period, closed: period };
    Ok((ChildProgram::over(child, Framing::Lengths(MAX_FRAME as usize), grace, scratch)?, setup))
}

/// Returns whether a worker crashed, or exited with the status of an interpreter that ran out of memory.
pub fn worker_crashed(status: ExitStatus) -> bool {
    crashed(status) || status.code() == Some(monty_types::OOM_EXIT_CODE)
}
