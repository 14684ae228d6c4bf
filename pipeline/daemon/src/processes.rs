//! Implements the effects of a daemon with processes: each run is a process of this program, `trainyard run … --run-id
//! …`.
//!
//! The process of a run is independent of the daemon. It has a separate process group and no pipe to the daemon, so it
//! survives the daemon, and its crash affects no other process. Its stderr goes to a file, whose end explains why a run
//! could not begin.

use crate::effects::{DaemonEffects, DaemonNotification, RunProcessState, RunResumer, StartRunRequest};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::process::Command;
use tokio::runtime::Handle;
use trainyard_core::error::io_error;
use trainyard_core::{Chance, Clock, Error, Result, RunId};
use trainyard_runtime::cancel::cancel_run;
use trainyard_runtime::resume::ProcessId;
use trainyard_spec::files::absolute;
use trainyard_store::{Store, layout};

/// Bytes of stderr that are kept of a run that could not begin.
const STDERR_BYTES: usize = 4_000;
/// Interval of checks whether processes have stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Number of checks whether a process has ended.
const RESUME_CHECKS: u32 = 15;

/// Starts runs as processes.
pub struct RunProcesses {
    /// Path of this program.
    pub program: PathBuf,
    /// Site file, if the user named one.
    pub site: Option<PathBuf>,
    /// Folder of workflow files.
    pub folder: PathBuf,
    /// Folder of the runs' stderr.
    pub scratch: PathBuf,
    /// Additional environment of runs.
    pub environment: Vec<(OsString, OsString)>,
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    /// Source of writer names.
    pub chance: Chance,
    /// Runtime that waits for processes.
    pub handle: Handle,
    /// Notifies users.
    pub notify: Box<dyn Fn(DaemonNotification) + Send + Sync>,
    /// Started processes; empty at first.
    pub started: Arc<StartedProcesses>,
}

/// Processes by run.
#[derive(Debug, Default)]
pub struct StartedProcesses(Mutex<BTreeMap<RunId, StartedProcess>>);

#[derive(Debug)]
struct StartedProcess {
    pid: Option<u32>,
    /// Exit code and end of stderr; `None` while the process is alive.
    ended: Option<(Option<i32>, String)>,
}

impl StartedProcesses {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<RunId, StartedProcess>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Sends all processes SIGTERM, which they handle like Ctrl-C, and waits until they have ended, at most for
    /// `timeout`; returns whether all have.
    pub async fn stop(&self, timeout: Duration) -> bool {
        for pid in self.alive() {
            if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
                // The process may have ended already.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
        for _ in 0..timeout.as_millis() / POLL_INTERVAL.as_millis() {
            if self.alive().is_empty() {
                return true;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.alive().is_empty()
    }
    fn alive(&self) -> Vec<u32> {
        self.lock().values().filter(|one| one.ended.is_none()).filter_map(|one| one.pid).collect()
    }
}

impl RunProcesses {
    fn run_command(&self, request: &StartRunRequest) -> Command {
        let mut command = Command::new(&self.program);
        let file = absolute(&self.folder, &request.file);
        let texts = layout::schedule_texts(&request.schedule, &request.texts);
        command.arg("run").arg(file).args(["--run-id", &request.run.0, "--texts", &texts]);
        command.args(["--tick", &request.tick.time()]);
        for param in &request.params {
            command.arg("-p").arg(param);
        }
        command
    }
    /// Waits a moment for the end of a run's process; returns its state.
    async fn wait(&self, run: &RunId) -> RunProcessState {
        for _ in 0..RESUME_CHECKS {
            match self.process(run) {
                RunProcessState::Alive => tokio::time::sleep(POLL_INTERVAL).await,
                state => return state,
            }
        }
        self.process(run)
    }
    fn resume_command(&self, run: &RunId) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["runs", "resume", &run.0]);
        command
    }
    /// Starts a process of a run in a separate process group.
    fn begin(&self, run: &RunId, mut command: Command) -> Result<()> {
        std::fs::create_dir_all(&self.scratch).map_err(|e| io_error(&self.scratch, &e))?;
        let path = self.scratch.join(format!("{run}.stderr"));
        let stderr = File::create(&path).map_err(|e| io_error(&path, &e))?;
        command.args(["--store", self.store.url()]);
        if let Some(site) = &self.site {
            command.arg("--site").arg(site);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).process_group(0);
        let mut child =
            command.spawn().map_err(|e| Error::retryable(format!("cannot start {}: {e}", self.program.display())))?;
        let one = StartedProcess { pid: child.id(), ended: None };
        self.started.lock().insert(run.clone(), one);
        let (started, run) = (self.started.clone(), run.clone());
        self.handle.spawn(async move {
            let status = child.wait().await.ok();
            let code = status.as_ref().and_then(ExitStatus::code);
            let stderr = end_of(&path);
            // Only stderr of a failed process is kept in a file.
            if code == Some(0) {
                let _ = std::fs::remove_file(&path);
            }
            if let Some(one) = started.lock().get_mut(&run) {
                one.ended = Some((code, stderr));
            }
        });
        Ok(())
    }
}

impl DaemonEffects for RunProcesses {
    fn is_alive(&self, name: &str) -> Option<bool> {
        // A writer without a process is not alive.
        name.parse::<ProcessId>().map_or(Some(false), |process| process.is_alive())
    }
    fn start<'a>(&'a self, request: &'a StartRunRequest) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.begin(&request.run, self.run_command(request)) })
    }
    fn process(&self, run: &RunId) -> RunProcessState {
        match self.started.lock().get(run) {
            None => RunProcessState::None,
            Some(StartedProcess { ended: None, .. }) => RunProcessState::Alive,
            Some(StartedProcess { ended: Some((code, stderr)), .. }) => {
                RunProcessState::Ended { code: *code, stderr: stderr.clone() }
            }
        }
    }
    fn forget(&self, run: &RunId) {
        let mut started = self.started.lock();
        // A live process stays known, so that [`StartedProcesses::stop`] reaches it.
        if started.get(run).is_some_and(|one| one.ended.is_some()) {
            started.remove(run);
        }
    }
    fn cancel(&self, run: &RunId) {
        let (store, clock, chance, run) = (self.store.clone(), self.clock.clone(), self.chance, run.clone());
        self.handle.spawn(async move {
            let note = |text: &str| tracing::info!("{text}");
            if let Err(error) = cancel_run(&store, &run, clock.as_ref(), &chance, note).await {
                tracing::warn!(%run, %error, "cannot cancel a run");
            }
        });
    }
    fn notify(&self, notification: DaemonNotification) {
        (self.notify)(notification);
    }
}

impl RunResumer for RunProcesses {
    fn resume<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            // A process that has written the end of its run may take a moment to end.
            if self.wait(run).await == RunProcessState::Alive {
                return Ok(());
            }
            self.begin(run, self.resume_command(run))?;
            let RunProcessState::Ended { code, stderr } = self.wait(run).await else { return Ok(()) };
            self.forget(run);
            // Exit code 1 means that a stage failed.
            if matches!(code, Some(0 | 1)) {
                return Ok(());
            }
            Err(Error::invalid(format!("run {run} cannot be resumed: {stderr}"))
                .help("`trainyard runs resume` shows more"))
        })
    }
}

/// Returns the end of a text file without control characters except newlines; empty if the file cannot be read.
fn end_of(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let from = text.len().saturating_sub(STDERR_BYTES);
    String::from_utf8_lossy(&text[from..])
        .chars()
        .filter(|c| !c.is_control() || *c == '\n')
        .collect::<String>()
        .trim()
        .to_string()
}
