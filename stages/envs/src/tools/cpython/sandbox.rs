//! Confines a process before it becomes the interpreter: the process gives up every right that a program must not have.
//! Each step is required; a process that cannot take one exits and writes the reason to stderr.
//!
//! A superuser is confined like any other user: the process keeps no capability and can gain none, so Landlock alone
//! guards the superuser's files. Nothing relies on limits on processes, which do not bind a superuser.

use crate::tools::confinement::system_calls::SystemCalls;
use crate::tools::confinement::{bound, files};
use close_fds::set_fds_cloexec;
use rustix::process::{Resource, Signal, set_parent_process_death_signal};
use rustix::thread::{CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities, set_no_new_privs};
use serde::{Deserialize, Serialize};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

const RUNNER: &str = include_str!("runner.py");
/// Maximum number of open files of one process.
const OPEN_FILES: u64 = 128;
/// Size of the native stack.
const STACK_BYTES: u64 = 16 << 20;
/// Exit status of a process that could not be confined.
pub const REFUSED: i32 = 125;

/// Interpreter that the process becomes, with its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    pub executable: PathBuf,
    /// Files and folders that the process may read.
    pub reads: Vec<PathBuf>,
    /// Programs that the process may become.
    pub executes: Vec<PathBuf>,
    /// Folder of the session.
    pub scratch: PathBuf,
    /// Complete environment.
    pub environment: Vec<(String, String)>,
    /// Seconds of processor time of the process.
    pub cpu_seconds: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
}

/// Confines this process and replaces it by the interpreter of the specification, which is JSON. Returns only on
/// failure, with [`REFUSED`], after writing the reason to stderr.
pub fn main(spec: &str) -> i32 {
    let failure = match serde_json::from_str(spec) {
        Ok(spec) => become_interpreter(&spec).unwrap_or_else(|reason| reason),
        Err(e) => format!("invalid sandbox specification: {e}"),
    };
    eprintln!("{failure}");
    REFUSED
}

/// Confines this process and replaces it by the interpreter. Returns only on failure; both variants contain the reason.
fn become_interpreter(spec: &SandboxSpec) -> Result<String, String> {
    let step = |step_name: &'static str| move |e: rustix::io::Errno| format!("{step_name}: {e}");
    // The interpreter must not inherit descriptors that the supervisor has from its parents.
    set_fds_cloexec(3, &[]);
    limit(spec).map_err(|e| format!("limits: {e}"))?;
    let none = CapabilitySet::empty();
    set_no_new_privs(true).map_err(step("no_new_privs"))?;
    clear_ambient_capability_set().map_err(step("ambient capabilities"))?;
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(step("capabilities"))?;
    // This step must follow the change of capabilities, which may clear the signal.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(step("the signal at the supervisor's death"))?;
    files::restrict(&spec.reads, &spec.executes, &spec.scratch)?;
    let mut command = Command::new(&spec.executable);
    command.args(["-c", RUNNER]).current_dir(&spec.scratch).env_clear();
    command.envs(spec.environment.iter().map(|(name, value)| (name, value)));
    SystemCalls::Interpreter.restrict_thread()?;
    Ok(format!("`{}`: {}", spec.executable.display(), command.exec()))
}

/// Sets the resource limits of this process. The supervisor limits the address space once the interpreter has started.
fn limit(spec: &SandboxSpec) -> std::io::Result<()> {
    for (resource, amount) in [
        (Resource::Core, 0),
        (Resource::Cpu, spec.cpu_seconds),
        (Resource::Fsize, spec.file_bytes),
        (Resource::Memlock, 0),
        (Resource::Msgqueue, 0),
        (Resource::Nofile, OPEN_FILES),
        (Resource::Nproc, 0),
        (Resource::Stack, STACK_BYTES),
    ] {
        bound(resource, amount)?;
    }
    Ok(())
}
