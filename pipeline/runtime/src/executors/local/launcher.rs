//! Starts the program that runs attempts.

use super::super::{AttemptExit, AttemptTask, BY_INDEX, GPU_ORDER, GPUS, MARK, SUPERVISED, format_gpus};
use crate::slots::{self, SlotGuard};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::process::{Child, Command};
use trainyard_core::Error;
use trainyard_core::event::AttemptOutcome;

/// Program that runs attempts.
#[derive(Debug, Clone)]
pub struct Launcher {
    pub program: PathBuf,
    /// Arguments before the attempt's URL; usually `attempt`.
    pub arguments: Vec<OsString>,
    /// Variables added to the environment.
    pub env: Vec<(OsString, OsString)>,
}

impl Launcher {
    /// Starts attempts with `<program> attempt <url>`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), arguments: vec!["attempt".into()], env: Vec::new() }
    }
    /// Wraps the program in another one that takes `arguments` and then the command: `nice -n 10 <program> attempt`.
    #[must_use]
    pub fn wrapped_in(self, program: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        let before = arguments.iter().map(OsString::from).chain([self.program.into()]);
        Self { program: program.into(), arguments: before.chain(self.arguments).collect(), env: self.env }
    }

    /// Starts the attempt's process, which inherits its slots. With `on_pipes`, its stdin, stdout and stderr are pipes
    /// to this process; otherwise they are null.
    pub(super) fn spawn(
        &self,
        task: &AttemptTask,
        slot_guard: Option<&SlotGuard>,
        on_pipes: bool,
    ) -> Result<Child, AttemptExit> {
        let url = task.url();
        let mut command = self.command(task, &url);
        let stdio = || if on_pipes { Stdio::piped() } else { Stdio::null() };
        command.stdin(stdio()).stdout(stdio()).stderr(stdio()).process_group(0).kill_on_drop(on_pipes);
        if on_pipes {
            command.env(SUPERVISED, &url);
        } else {
            command.env_remove(SUPERVISED);
        }
        let lent = slot_guard.map_or(Ok(()), |slot_guard| slots::lend(slot_guard.handle(), &mut command));
        lent.and_then(|()| command.spawn()).map_err(|e| AttemptExit::with_error(AttemptOutcome::Lost, self.fault(&e)))
    }
    /// Starts a host, which reads its requests from `requests`. Its URL marks the processes that it starts until an
    /// attempt's URL replaces it.
    pub(super) fn spawn_host(&self, url: &str, requests: OwnedFd) -> std::io::Result<std::process::Child> {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.arguments).arg(url).envs(self.env.iter().cloned()).env(MARK, url).process_group(0);
        command.stdin(requests).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    }
    /// Returns the error of a program that could not be started.
    pub(super) fn fault(&self, error: &std::io::Error) -> Error {
        Error::lost(format!("cannot start {}: {error}", self.program.display()))
            .help("check that the program exists and is executable")
    }

    fn command(&self, task: &AttemptTask, url: &str) -> Command {
        let mut command = Command::new(&self.program);
        let threads = task.spec.resources.cpus.to_string();
        command.args(&self.arguments).arg(url);
        // Numeric libraries read these variables at process start.
        for name in ["RAYON_NUM_THREADS", "OMP_NUM_THREADS"] {
            command.env(name, &threads);
        }
        command.envs(self.env.iter().cloned());
        // The indices are those of the driver's library; CUDA's default order puts the fastest first.
        command.env(GPU_ORDER, BY_INDEX).env(GPUS, format_gpus(&task.spec.resources.gpus)).env(MARK, url);
        command
    }
}
