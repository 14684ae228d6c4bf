//! Runs the commands of many attempts in one host process.
//!
//! A command needs a process that starts it, reads its log, stores its outputs, and ends it when the engine dies.
//! Starting a separate process per command would take longer than most commands. Therefore the `run:` stages of an
//! executor that stops with its engine share one host process: the same program, started once. The host reads requests
//! from its standard input, a socket that closes when the engine dies, and reports on its standard output. It holds the
//! locks of its attempts' slots, which are therefore released when it ends. If the host dies, its attempts are lost,
//! and the next attempt gets a new host.

mod protocol;
mod wire;

pub use protocol::{HostReport, HostRequest, is_host};

use super::Launcher;
use super::ending::unexplained;
use super::processes::kill_tree;
use crate::executors::lines::for_each_line;
use crate::executors::{AttemptExit, AttemptReporter, AttemptTask};
use crate::slots::SlotGuard;
use protocol::host_url;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use trainyard_core::attempt::AttemptResult;
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, Result};
use wire::{HostMessage, send_all};

/// How long an unneeded host may take to end.
const EXIT_GRACE: Duration = Duration::from_secs(3);
/// Poll interval for the end of a host.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Number of hosts started by this process, for unique names.
static HOSTS: AtomicU64 = AtomicU64::new(0);

/// Hosts of an executor by the URL of their store, each started on first use.
#[derive(Default)]
pub(super) struct HostPool(Mutex<BTreeMap<String, HostProcess>>);

/// How an attempt on a host ended.
pub(super) enum HostedEnd {
    /// Reported by the host.
    Reported { stored: bool, result: Option<Box<AttemptResult>>, error: Option<Error> },
    /// The host died.
    Died(Error),
}

/// Attempt that runs on a host.
pub(super) struct HostedAttempt {
    pub id: u64,
    requests: UnboundedSender<HostMessage>,
    pub end: oneshot::Receiver<HostedEnd>,
}

struct HostProcess {
    next: u64,
    requests: UnboundedSender<HostMessage>,
    attempts: UnfinishedAttempts,
    /// Socket of the requests; shutting it down ends the host.
    socket: UnixStream,
    child: Arc<Mutex<Child>>,
}

/// Attempts of a host by number; `None` once it has died.
type UnfinishedAttempts = Arc<Mutex<Option<HashMap<u64, UnfinishedAttempt>>>>;

struct UnfinishedAttempt {
    reports: Arc<dyn AttemptReporter>,
    end: oneshot::Sender<HostedEnd>,
}

impl HostPool {
    /// Passes an attempt to the host of its store, and starts the host if none is alive. Must be called in a tokio
    /// runtime.
    pub fn begin(
        &self,
        launcher: &Launcher,
        task: &AttemptTask,
        slot_guard: Option<&SlotGuard>,
    ) -> Result<HostedAttempt, AttemptExit> {
        let lock = slot_guard.map(|slot_guard| slot_guard.handle().try_clone().map(Into::into)).transpose();
        let lock = lock.map_err(|e| lost(launcher, &e))?;
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let store = task.store.url();
        hosts.retain(|_, host| lock_attempts(&host.attempts).is_some());
        let host = match hosts.entry(store.to_string()) {
            Entry::Occupied(host) => host.into_mut(),
            Entry::Vacant(vacant) => {
                vacant.insert(HostProcess::start(launcher, store).map_err(|e| lost(launcher, &e))?)
            }
        };
        host.begin(task, lock)
    }
}

impl HostProcess {
    fn start(launcher: &Launcher, store: &str) -> std::io::Result<Self> {
        let url = host_url(store, HOSTS.fetch_add(1, Ordering::Relaxed));
        let (ours, theirs) = UnixStream::pair()?;
        let mut child = launcher.spawn_host(&url, theirs.into())?;
        tracing::debug!(pid = child.id(), url, "host started");
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let socket = ours.try_clone()?;
        ours.set_nonblocking(true)?;
        let (requests, messages) = unbounded_channel();
        tokio::spawn(send_all(tokio::net::UnixStream::from_std(ours)?, messages));
        let attempts = UnfinishedAttempts::new(Mutex::new(Some(HashMap::new())));
        let child = Arc::new(Mutex::new(child));
        if let (Some(stdout), Some(stderr)) = (stdout, stderr) {
            tokio::spawn(read_stderr(tokio::process::ChildStderr::from_std(stderr)?, attempts.clone()));
            let stdout = tokio::process::ChildStdout::from_std(stdout)?;
            tokio::spawn(read_reports(stdout, attempts.clone(), child.clone(), url));
        }
        Ok(Self { next: 0, requests, attempts, socket, child })
    }

    fn begin(&mut self, task: &AttemptTask, lock: Option<OwnedFd>) -> Result<HostedAttempt, AttemptExit> {
        let (id, (end, ended)) = (self.next, oneshot::channel());
        self.next += 1;
        // If the host has died since the check, the sender is dropped here, which ends the attempt.
        if let Some(attempts) = lock_attempts(&self.attempts).as_mut() {
            attempts.insert(id, UnfinishedAttempt { reports: task.reports.clone(), end });
        }
        let request = HostRequest::Start {
            id,
            url: task.url(),
            spec: Box::new(task.spec.as_ref().clone()),
            lock: lock.is_some(),
        };
        let hosted = HostedAttempt { id, requests: self.requests.clone(), end: ended };
        hosted.send(&request, lock).map_err(|error| AttemptExit::with_error(AttemptOutcome::Failed, error))?;
        Ok(hosted)
    }
}

impl HostedAttempt {
    /// Sends a request. Errors: bug (it has no JSON form).
    fn send(&self, request: &HostRequest, lock: Option<OwnedFd>) -> Result<()> {
        let mut line =
            serde_json::to_vec(request).map_err(|e| Error::bug("a host request has no JSON form").caused_by(&e))?;
        line.push(b'\n');
        // If the host has ended, the attempt's channel is closed.
        let _ = self.requests.send(HostMessage { line, lock });
        Ok(())
    }
    /// Sends a request for this attempt.
    pub fn send_request(&self, request: &HostRequest) {
        if let Err(error) = self.send(request, None) {
            tracing::debug!(%error, "cannot send a request to the host");
        }
    }
    /// Waits until the attempt ends or the host dies.
    pub async fn ended(&mut self) -> HostedEnd {
        let died = || HostedEnd::Died(Error::lost("the host process of the attempt's command ended"));
        (&mut self.end).await.unwrap_or_else(|_| died())
    }
}

impl Drop for HostProcess {
    /// Closes the host's requests, which ends the host, and blocks until it has ended; kills it after [`EXIT_GRACE`].
    /// No process may be left when a run is over.
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..EXIT_GRACE.as_millis() / POLL_INTERVAL.as_millis() {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(POLL_INTERVAL),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Forwards the reports of a host until it ends, then kills the processes it left and reports its unfinished attempts
/// as died.
async fn read_reports(
    stdout: impl tokio::io::AsyncRead + Unpin,
    attempts: UnfinishedAttempts,
    child: Arc<Mutex<Child>>,
    url: String,
) {
    for_each_line(stdout, |line| match serde_json::from_str::<HostReport>(line) {
        Ok(HostReport::Message { id, message }) => {
            let reports = lock_attempts(&attempts).as_ref().and_then(|all| Some(all.get(&id)?.reports.clone()));
            if let Some(reports) = reports {
                reports.message(message);
            }
        }
        Ok(HostReport::Ended { id, stored, result, error }) => {
            if let Some(attempt) = lock_attempts(&attempts).as_mut().and_then(|all| all.remove(&id)) {
                // A closed channel means that the attempt was stopped.
                let _ = attempt.end.send(HostedEnd::Reported { stored, result, error });
            }
        }
        Err(_) => tracing::info!("output of the host: {line}"),
    })
    .await;
    let unfinished = lock_attempts(&attempts).take().unwrap_or_default();
    let pid = child.lock().unwrap_or_else(PoisonError::into_inner).id();
    let status = tokio::task::spawn_blocking(move || child.lock().unwrap_or_else(PoisonError::into_inner).wait()).await;
    if unfinished.is_empty() {
        return;
    }
    let error = unexplained(&status.unwrap_or_else(|e| Err(std::io::Error::other(e))));
    tracing::info!(attempts = unfinished.len(), %error, "the host of attempts died");
    // A command that is being started may still have the host's mark instead of its attempt's.
    kill_tree(Some(pid), &url).await;
    for attempt in unfinished.into_values() {
        let _ = attempt.end.send(HostedEnd::Died(error.clone()));
    }
}

/// Forwards stderr of a host to its attempt if the host has exactly one. Otherwise the source of a line is unknown, and
/// the line goes to the program's log.
async fn read_stderr(stderr: impl tokio::io::AsyncRead + Unpin, attempts: UnfinishedAttempts) {
    for_each_line(stderr, |line| {
        let only = {
            let attempts = lock_attempts(&attempts);
            let mut all = attempts.iter().flat_map(HashMap::values);
            all.next().filter(|_| all.next().is_none()).map(|attempt| attempt.reports.clone())
        };
        match only {
            Some(reports) => reports.raw(line),
            None => tracing::info!("stderr of the host: {line}"),
        }
    })
    .await;
}

fn lock_attempts(attempts: &UnfinishedAttempts) -> MutexGuard<'_, Option<HashMap<u64, UnfinishedAttempt>>> {
    attempts.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lost(launcher: &Launcher, error: &std::io::Error) -> AttemptExit {
    AttemptExit::with_error(AttemptOutcome::Lost, launcher.fault(error))
}
