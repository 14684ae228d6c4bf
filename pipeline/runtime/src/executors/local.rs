//! Attempts as processes of this machine: `<program> attempt <store-url>#<attempt-folder>`.
//!
//! Each leads a process group of its own and sends [`AttemptMessage`] lines on stdout; anything else on stdout, and all
//! of stderr, goes to the log. `cancel` or `timeout` is written to its stdin, and the end of stdin tells it that the
//! engine died. When an attempt ends, however it ends, its whole process tree is killed before its slots are given
//! back; it inherits its slots, so that they outlast an engine that is killed.

use super::lines::for_each_line;
use super::{Control, Ended, Executor, MARK, Reports, SUPERVISED, Task};
use crate::lookup;
use crate::slots::{self, Held, Holder, Slots};
use futures::future::{BoxFuture, FutureExt};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use trainyard_core::attempt::{AttemptMessage, LogLevel};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, Result};
use trainyard_engine::Outside;

/// Time between a `cancel` line and the kill of the tree.
const CANCEL_GRACE: Duration = Duration::from_secs(10);
/// The same after a timeout, when the attempt has had its time.
const TIMEOUT_GRACE: Duration = Duration::from_secs(2);
/// How long pipes may stay open after everything is killed.
const DRAIN: Duration = Duration::from_secs(2);

/// The program that carries out attempts.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments before the attempt's URL; usually `attempt`.
    pub arguments: Vec<OsString>,
    /// Added to the environment.
    pub env: Vec<(OsString, OsString)>,
}

impl Launcher {
    /// Starts attempts with `<program> attempt <url>`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), arguments: vec!["attempt".into()], env: Vec::new() }
    }
    /// The same, started by another program that takes `arguments` and then the command: `nice -n 10 <program>
    /// attempt`.
    #[must_use]
    pub fn behind(self, program: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        let before = arguments.iter().map(OsString::from).chain([self.program.into()]);
        Self { program: program.into(), arguments: before.chain(self.arguments).collect(), env: self.env }
    }
}

/// The executor `local`: processes of this machine.
pub struct Local {
    name: &'static str,
    launcher: Launcher,
    slots: Option<Slots>,
}

impl Local {
    /// As pools name it.
    pub const NAME: &str = "local";

    /// An executor whose attempts wait for `slots`, if there are any, before they start.
    pub fn new(launcher: Launcher, slots: Option<Slots>) -> Self {
        Self::named(Self::NAME, launcher, slots)
    }
    /// The same under another name, for executors that differ in how the process is started.
    pub fn named(name: &'static str, launcher: Launcher, slots: Option<Slots>) -> Self {
        Self { name, launcher, slots }
    }
}

impl Executor for Local {
    fn name(&self) -> &'static str {
        self.name
    }
    fn run(
        &self,
        task: Task,
        mut control: watch::Receiver<Control>,
        reports: Arc<dyn Reports>,
    ) -> BoxFuture<'static, Ended> {
        let (launcher, slots) = (self.launcher.clone(), self.slots.clone());
        async move {
            // The stage counts as started, so people have to be told why nothing happens.
            let mut waited = false;
            let waits = |holders: String| {
                waited = true;
                reports.waits(Some(&holders));
                let text = format!("waits for slots of this machine, {holders}");
                reports.message(AttemptMessage::Log { level: LogLevel::Warn, text });
            };
            let held = match (&slots, task.grant.shares.first()) {
                (Some(slots), Some(share)) => match slots.acquire(share, &holder(&task), &mut control, waits).await {
                    Ok(held) => {
                        if waited {
                            reports.waits(None);
                        }
                        Some(held)
                    }
                    Err(error) => return Ended::with(outcome_of(&error), error),
                },
                _ => None,
            };
            let ended = attempt(&launcher, &task, held.as_ref(), control, reports).await;
            drop(held);
            ended
        }
        .boxed()
    }
    fn reattach(
        &self,
        task: Task,
        _: watch::Receiver<Control>,
        _: Arc<dyn Reports>,
    ) -> BoxFuture<'static, Option<Ended>> {
        async move {
            // It stops by itself when its stdin ends with its engine; this makes sure of it.
            kill_tree(None, &mark(&task)).await;
            lookup::result(&task.store, &task.spec).await.ok().flatten().map(Ended::succeeded)
        }
        .boxed()
    }
    fn outside(&self) -> Option<Result<Outside>> {
        self.slots.as_ref().map(Slots::others)
    }
}

fn holder(task: &Task) -> Holder {
    let spec = &task.spec;
    Holder { run: spec.run.0.clone(), workflow: spec.workflow.clone(), stage: spec.stage.0.clone() }
}

/// The attempt's URL, which is also its mark.
fn mark(task: &Task) -> String {
    format!("{}#{}", task.store.url(), task.folder)
}

fn outcome_of(error: &Error) -> AttemptOutcome {
    if error.kind == trainyard_core::ErrorKind::Cancelled { AttemptOutcome::Cancelled } else { AttemptOutcome::Failed }
}

#[cfg(target_os = "linux")]
async fn kill_tree(root: Option<u32>, mark: &str) {
    super::tree::kill_all(root, mark).await;
}

/// Without `/proc` only the process group can be found.
#[cfg(not(target_os = "linux"))]
async fn kill_tree(root: Option<u32>, _: &str) {
    if let Some(pid) = root.and_then(|r| i32::try_from(r).ok()).and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
}

fn command(launcher: &Launcher, task: &Task, mark: &str) -> Command {
    let mut command = Command::new(&launcher.program);
    let threads = task.spec.resources.cpus.to_string();
    let gpus: Vec<String> = task.spec.resources.gpus.iter().map(u32::to_string).collect();
    command.args(&launcher.arguments).arg(mark);
    // Numeric libraries read these when the process starts.
    for name in ["RAYON_NUM_THREADS", "OMP_NUM_THREADS"] {
        command.env(name, &threads);
    }
    command.envs(launcher.env.iter().cloned());
    command.env("CUDA_VISIBLE_DEVICES", gpus.join(",")).env(MARK, mark).env(SUPERVISED, mark);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    command
}

/// What the attempt reported about its end.
#[derive(Default)]
struct LastWords {
    result: bool,
    error: Option<Error>,
}

async fn attempt(
    launcher: &Launcher,
    task: &Task,
    held: Option<&Held>,
    control: watch::Receiver<Control>,
    reports: Arc<dyn Reports>,
) -> Ended {
    let mark = mark(task);
    let mut command = command(launcher, task, &mark);
    let lent = held.map_or(Ok(()), |held| slots::lend(held.handle(), &mut command));
    let mut child = match lent.and_then(|()| command.spawn()) {
        Ok(child) => child,
        Err(e) => {
            let error = Error::lost(format!("cannot start {}: {e}", launcher.program.display()))
                .help("check that the program exists and is executable");
            return Ended::with(AttemptOutcome::Lost, error);
        }
    };
    // It keeps a copy of the lock that it lent.
    drop(command);
    let root = child.id();
    tracing::debug!(pid = root, url = mark, "process started");
    let words = Arc::new(Mutex::new(LastWords::default()));
    let readers = read_pipes(&mut child, &words, &reports);
    let stdin = child.stdin.take();
    let (status, stopped) = supervise(&mut child, stdin, root, &mark, task.timeout, control).await;
    kill_tree(root, &mark).await;
    for reader in readers {
        let abort = reader.abort_handle();
        if tokio::time::timeout(DRAIN, reader).await.is_err() {
            abort.abort();
        }
    }
    let words = std::mem::take(&mut *words.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    end_of(task, &status, stopped, words).await
}

fn read_pipes(child: &mut Child, words: &Arc<Mutex<LastWords>>, reports: &Arc<dyn Reports>) -> Vec<JoinHandle<()>> {
    let mut readers = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let (words, reports) = (words.clone(), reports.clone());
        readers.push(tokio::spawn(async move {
            for_each_line(stdout, |line| match serde_json::from_str::<AttemptMessage>(line) {
                Ok(message) => {
                    let mut words = words.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    match &message {
                        AttemptMessage::Result {} => words.result = true,
                        AttemptMessage::Error { error } => words.error = Some(error.clone()),
                        _ => {}
                    }
                    drop(words);
                    reports.message(message);
                }
                Err(_) => reports.raw(line),
            })
            .await;
        }));
    }
    if let Some(stderr) = child.stderr.take() {
        let reports = reports.clone();
        readers.push(tokio::spawn(async move { for_each_line(stderr, |line| reports.raw(line)).await }));
    }
    readers
}

/// Why the engine ended the attempt, if it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopped {
    TimedOut,
    Cancelled,
}

/// Waits for the process to end, and enforces the timeout and the engine's requests.
async fn supervise(
    child: &mut Child,
    mut stdin: Option<ChildStdin>,
    root: Option<u32>,
    mark: &str,
    timeout: Option<Duration>,
    mut control: watch::Receiver<Control>,
) -> (std::io::Result<ExitStatus>, Option<Stopped>) {
    let mut stopped = None;
    let mut limit = timeout;
    let mut control_open = true;
    loop {
        let expiry = after(limit);
        tokio::pin!(expiry);
        // A request that changes nothing must not restart the limit, so it is waited for in an inner loop.
        let rises = |c: &Control| *c > Control::Run && (stopped.is_none() || *c == Control::Kill);
        let next = loop {
            tokio::select! {
                status = child.wait() => return (status, stopped),
                () = &mut expiry => break None,
                changed = control.wait_for(rises), if control_open => match changed {
                    Ok(control) => break Some(*control),
                    Err(_) => control_open = false,
                },
            }
        };
        match (next, stopped) {
            (Some(Control::Cancel), _) => {
                stopped = Some(Stopped::Cancelled);
                ask_to_stop(&mut stdin, "cancel\n").await;
                limit = Some(CANCEL_GRACE);
            }
            (None, None) => {
                stopped = Some(Stopped::TimedOut);
                ask_to_stop(&mut stdin, "timeout\n").await;
                limit = Some(TIMEOUT_GRACE);
            }
            (Some(_), _) | (None, Some(_)) => {
                stopped.get_or_insert(Stopped::Cancelled);
                kill_tree(root, mark).await;
                return (child.wait().await, stopped);
            }
        }
    }
}

/// Returns after the limit; never without one.
async fn after(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

/// `cancel`, or `timeout` where the attempt's time is up; the attempt stops either way and its log tells which.
async fn ask_to_stop(stdin: &mut Option<ChildStdin>, line: &str) {
    if let Some(stdin) = stdin {
        // If the process does not read any more, it is killed after its grace.
        let _ = tokio::time::timeout(Duration::from_secs(1), stdin.write_all(line.as_bytes())).await;
    }
}

async fn end_of(
    task: &Task,
    status: &std::io::Result<ExitStatus>,
    stopped: Option<Stopped>,
    words: LastWords,
) -> Ended {
    tracing::debug!(?status, ?stopped, "process ended");
    let done = words.result || status.as_ref().is_ok_and(ExitStatus::success);
    if done && stopped != Some(Stopped::TimedOut) {
        match lookup::result(&task.store, &task.spec).await {
            Ok(Some(result)) => return Ended::succeeded(result),
            Ok(None) => {}
            Err(error) => return Ended::with(AttemptOutcome::Failed, error.at("reading the attempt's result")),
        }
    }
    match stopped {
        Some(Stopped::TimedOut) => {
            let limit = task.timeout.map(trainyard_core::units::format_duration).unwrap_or_default();
            let error = Error::retryable(format!("the attempt did not end within its timeout of {limit}"))
                .help("raise `timeout`, or let the stage do less");
            Ended::with(AttemptOutcome::TimedOut, error)
        }
        Some(Stopped::Cancelled) => Ended::with(AttemptOutcome::Cancelled, Error::cancelled("the attempt was stopped")),
        None => {
            let error = words.error.unwrap_or_else(|| unexplained(status));
            let outcome = match error.kind {
                trainyard_core::ErrorKind::Lost => AttemptOutcome::Lost,
                trainyard_core::ErrorKind::Cancelled => AttemptOutcome::Cancelled,
                _ => AttemptOutcome::Failed,
            };
            Ended::with(outcome, error)
        }
    }
}

/// The error of a process that left neither a result nor an error message.
fn unexplained(status: &std::io::Result<ExitStatus>) -> Error {
    use std::os::unix::process::ExitStatusExt;
    let status = match status {
        Ok(status) => status,
        Err(e) => return Error::lost(format!("cannot wait for the attempt's process: {e}")),
    };
    match (status.code(), status.signal()) {
        (_, Some(9)) => Error::lost("the attempt's process was killed (signal 9)")
            .help("if the machine ran out of memory, ask for less or for a larger one"),
        (_, Some(signal @ (4 | 6 | 7 | 8 | 11 | 31))) => {
            Error::bug(format!("the attempt's process crashed (signal {signal})")).help("see its log")
        }
        (_, Some(signal)) => Error::lost(format!("the attempt's process was stopped from outside (signal {signal})")),
        (Some(0), _) => Error::lost("the attempt ended without a result").help("see its log"),
        (code, _) => {
            Error::bug(format!("the attempt's process ended with code {} without an error", code.unwrap_or(-1)))
                .help("see its log")
        }
    }
}
