//! Attempts as processes of this machine: `<program> attempt <store-url>#<attempt-folder>`.
//!
//! Each is the leader of a process group of its own and talks JSON Lines on stdout; `cancel` goes to its stdin, whose end tells
//! it that the engine died. stderr is log. When an attempt ends, however it ends, its whole tree is killed before its slots
//! are given back. Refuses: interpreting anything but [`AttemptMessage`]; whatever else is printed is log.

use super::lines::for_each_line;
use super::{Ended, Executor, MARK, Reports, Task, Wish};
use crate::lookup;
use crate::slots::Slots;
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
/// The same after a timeout: the attempt had its time.
const TIMEOUT_GRACE: Duration = Duration::from_secs(2);
/// How long pipes may stay open after everything was killed.
const DRAIN: Duration = Duration::from_secs(2);

/// The program that carries out attempts.
#[derive(Debug, Clone)]
pub struct Launcher {
    pub program: PathBuf,
    /// Before the attempt's URL; usually `attempt`.
    pub arguments: Vec<OsString>,
    /// Added to the environment.
    pub env: Vec<(OsString, OsString)>,
}

impl Launcher {
    /// `<program> attempt <url>`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), arguments: vec!["attempt".into()], env: Vec::new() }
    }
}

/// The executor.
pub struct Local {
    name: &'static str,
    launcher: Launcher,
    slots: Option<Slots>,
}

impl Local {
    /// As pools name it.
    pub const NAME: &str = "local";

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
    fn run(&self, task: Task, mut wish: watch::Receiver<Wish>, reports: Arc<dyn Reports>) -> BoxFuture<'static, Ended> {
        let (launcher, slots) = (self.launcher.clone(), self.slots.clone());
        async move {
            // Whoever watches sees a stage that has started; why nothing happens has to be said.
            let waits = || {
                let text = "waits for slots of this machine, which other attempts hold".to_string();
                reports.message(AttemptMessage::Log { level: LogLevel::Warn, text });
            };
            let held = match (&slots, task.grant.shares.first()) {
                (Some(slots), Some(share)) => match slots.acquire(share, &mut wish, waits).await {
                    Ok(held) => Some(held),
                    Err(error) => return Ended::with(outcome_of(&error), error),
                },
                _ => None,
            };
            let ended = attempt(&launcher, &task, wish, reports).await;
            drop(held);
            ended
        }
        .boxed()
    }
    fn reattach(&self, task: Task, _: watch::Receiver<Wish>, _: Arc<dyn Reports>) -> BoxFuture<'static, Option<Ended>> {
        async move {
            // Its stdin ended with its engine, so it stops by itself; this makes sure before anything else is decided.
            kill_tree(None, &mark(&task)).await;
            match lookup::result(&task.store, &task.spec).await {
                Ok(Some(_)) => Some(Ended::succeeded()),
                Ok(None) | Err(_) => None,
            }
        }
        .boxed()
    }
    fn outside(&self) -> Option<Result<Outside>> {
        self.slots.as_ref().map(Slots::others)
    }
}

/// The attempt's URL, which is its mark as well.
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
    // Read by the numeric libraries when the process starts; later is too late.
    for name in ["RAYON_NUM_THREADS", "OMP_NUM_THREADS"] {
        command.env(name, &threads);
    }
    command.envs(launcher.env.iter().cloned());
    command.env("CUDA_VISIBLE_DEVICES", gpus.join(",")).env(MARK, mark);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    command
}

/// What the attempt said about its end.
#[derive(Default)]
struct LastWords {
    result: bool,
    error: Option<Error>,
}

async fn attempt(launcher: &Launcher, task: &Task, wish: watch::Receiver<Wish>, reports: Arc<dyn Reports>) -> Ended {
    let mark = mark(task);
    let mut child = match command(launcher, task, &mark).spawn() {
        Ok(child) => child,
        Err(e) => {
            let error = Error::lost(format!("cannot start {}: {e}", launcher.program.display()))
                .help("see that the program exists and may be executed");
            return Ended::with(AttemptOutcome::Lost, error);
        }
    };
    let root = child.id();
    let words = Arc::new(Mutex::new(LastWords::default()));
    let readers = read_pipes(&mut child, &words, &reports);
    let stdin = child.stdin.take();
    let (status, stopped) = supervise(&mut child, stdin, root, &mark, task.timeout, wish).await;
    kill_tree(root, &mark).await;
    for reader in readers {
        let abort = reader.abort_handle();
        if tokio::time::timeout(DRAIN, reader).await.is_err() {
            abort.abort();
        }
    }
    let words = std::mem::take(&mut *words.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    verdict(task, &status, stopped, words).await
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

/// Waits for the end; carries out timeout and wishes meanwhile.
async fn supervise(
    child: &mut Child,
    mut stdin: Option<ChildStdin>,
    root: Option<u32>,
    mark: &str,
    timeout: Option<Duration>,
    mut wish: watch::Receiver<Wish>,
) -> (std::io::Result<ExitStatus>, Option<Stopped>) {
    let mut stopped = None;
    let mut limit = timeout;
    let mut wishes_open = true;
    loop {
        let expiry = after(limit);
        tokio::pin!(expiry);
        // Wishes that change nothing must not restart the limit, so they are waited for inside.
        let next = loop {
            tokio::select! {
                status = child.wait() => return (status, stopped),
                () = &mut expiry => break None,
                changed = wish.wait_for(|w| *w > Wish::Run && (stopped.is_none() || *w == Wish::Kill)), if wishes_open => match changed {
                    Ok(wish) => break Some(*wish),
                    Err(_) => wishes_open = false,
                },
            }
        };
        match (next, stopped) {
            (Some(Wish::Cancel), _) => {
                stopped = Some(Stopped::Cancelled);
                ask_to_stop(&mut stdin).await;
                limit = Some(CANCEL_GRACE);
            }
            (None, None) => {
                stopped = Some(Stopped::TimedOut);
                ask_to_stop(&mut stdin).await;
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

async fn ask_to_stop(stdin: &mut Option<ChildStdin>) {
    if let Some(stdin) = stdin {
        // A process that does not read any more is killed after its grace.
        let _ = tokio::time::timeout(Duration::from_secs(1), stdin.write_all(b"cancel\n")).await;
    }
}

async fn verdict(
    task: &Task,
    status: &std::io::Result<ExitStatus>,
    stopped: Option<Stopped>,
    words: LastWords,
) -> Ended {
    let done = words.result || status.as_ref().is_ok_and(ExitStatus::success);
    if done && stopped != Some(Stopped::TimedOut) {
        match lookup::result(&task.store, &task.spec).await {
            Ok(Some(_)) => return Ended::succeeded(),
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

/// An end without a result and without an error message.
fn unexplained(status: &std::io::Result<ExitStatus>) -> Error {
    use std::os::unix::process::ExitStatusExt;
    let status = match status {
        Ok(status) => status,
        Err(e) => return Error::lost(format!("the attempt's process cannot be waited for: {e}")),
    };
    match (status.code(), status.signal()) {
        (_, Some(9)) => Error::lost("the attempt's process was killed (signal 9)")
            .help("if the machine ran out of memory, ask for less or for a larger one"),
        (_, Some(signal @ (4 | 6 | 7 | 8 | 11 | 31))) => {
            Error::bug(format!("the attempt's process crashed (signal {signal})")).help("see its log")
        }
        (_, Some(signal)) => Error::lost(format!("the attempt's process was ended from outside (signal {signal})")),
        (Some(0), _) => Error::lost("the attempt ended without a result").help("see its log"),
        (code, _) => {
            Error::bug(format!("the attempt's process ended with code {} and said nothing", code.unwrap_or(-1)))
                .help("see its log")
        }
    }
}
