//! Runs the commands of many attempts in one process: `trainyard attempt <store-url>#host-<name>`.
//!
//! The engine starts the host and sends it requests. Each attempt has a thread. The end of the requests means that the
//! engine has died or no longer needs the host. The host then kills, within 2 s, all processes that attempts started,
//! including those that left their process group, lost their parent, or ignore SIGTERM. The main thread starts no
//! process, so that its children are only orphans that the host adopted.

use super::folders::Folders;
use super::process_tree::HostProcessTree;
use super::redaction;
use super::request_reader::HostRequestReader;
use super::runner::AttemptRunner;
use super::setup::{open_store, outage, runtime, span};
use super::supervision::name_timeout;
use super::thread_pool::ThreadPool;
use crate::catalogue::Catalogue;
use crate::scratch::ScratchFolder;
use std::collections::HashMap;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use trainyard_api::{CancelToken, Reporter};
use trainyard_core::attempt::{AttemptMessage, AttemptResult, AttemptSpec};
use trainyard_core::{Error, Result, panics};
use trainyard_runtime::executors::{HostReport, HostRequest, kill_marked};
use trainyard_store::Store;

/// Grace period of the attempts after the end of the requests.
const GRACE: Duration = Duration::from_millis(1_500);

/// Runs attempts until the requests end. If attempts remain after [`GRACE`], exits the process with code 130.
pub fn main(url: &str, catalogue: &Catalogue) -> Result<()> {
    let runtime = runtime()?;
    let scratch = ScratchFolder::new()?;
    let host = AttemptHost {
        catalogue,
        handle: runtime.handle().clone(),
        folders: Folders::of(scratch.path()),
        process_tree: HostProcessTree::adopt(),
        stores: Mutex::default(),
        running: Mutex::default(),
        ended: Condvar::new(),
    };
    let done = std::thread::scope(|threads| {
        let read = host.serve_requests(threads);
        host.stop_all();
        if host.all_ended_within(GRACE) {
            return read;
        }
        // Threads of blocked attempts must not keep this process alive.
        for url in host.urls() {
            kill_marked(&url);
        }
        kill_marked(url);
        // The next creation of a scratch folder removes the remaining files.
        let _ = std::fs::remove_dir_all(scratch.path());
        std::process::exit(130)
    });
    runtime.shutdown_background();
    done
}

struct AttemptHost<'a> {
    catalogue: &'a Catalogue,
    handle: Handle,
    folders: Folders<'a>,
    process_tree: HostProcessTree,
    /// Stores by durability: whether every put is flushed.
    stores: Mutex<HashMap<bool, Store>>,
    running: Mutex<HashMap<u64, Arc<RunningAttempt>>>,
    ended: Condvar,
}

/// A running attempt.
struct RunningAttempt {
    url: String,
    cancel: CancelToken,
    timed_out: AtomicBool,
    killed: watch::Sender<bool>,
}

impl AttemptHost<'_> {
    fn serve_requests<'s>(&'s self, threads: &'s Scope<'s, '_>) -> Result<()> {
        let mut requests = HostRequestReader::from(std::io::stdin());
        let pool = ThreadPool::new(threads);
        while let Some((request, lock)) = requests.next()? {
            match request {
                HostRequest::Start { id, url, spec, .. } => {
                    let running = Arc::new(RunningAttempt {
                        url,
                        cancel: CancelToken::default(),
                        timed_out: AtomicBool::new(false),
                        killed: watch::Sender::new(false),
                    });
                    self.running().insert(id, running.clone());
                    let job = move || self.run_attempt(id, &running, &spec, lock);
                    if let Err(error) = pool.submit(Box::new(job)) {
                        let error = Error::retryable(format!("cannot start a thread for the attempt: {error}"));
                        self.report_end(id, Err(error));
                    }
                }
                HostRequest::Stop { id, timed_out } => {
                    if let Some(running) = self.running().get(&id) {
                        running.timed_out.store(timed_out, Ordering::SeqCst);
                        running.cancel.cancel();
                    }
                }
                HostRequest::Kill { id } => {
                    let running = self.running().get(&id).cloned();
                    if let Some(running) = running {
                        running.cancel.cancel();
                        running.killed.send_replace(true);
                        threads.spawn(move || kill_marked(&running.url));
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs one attempt, and reports its end. `lock` is that of the attempt's slots, released before the report.
    fn run_attempt(&self, id: u64, running: &RunningAttempt, spec: &AttemptSpec, lock: Option<OwnedFd>) {
        let _span = span(spec).entered();
        let outcome = panics::catch(|| self.attempt(id, running, spec))
            .unwrap_or_else(|message| Err(Error::bug(format!("the attempt panicked: {message}"))));
        drop(lock);
        let timed_out = running.timed_out.load(Ordering::SeqCst);
        self.report_end(id, outcome.map_err(|error| redaction::error(name_timeout(error, timed_out))));
    }

    /// Reports the end of an attempt to the engine, and removes it from the running attempts.
    fn report_end(&self, id: u64, outcome: Result<AttemptResult>) {
        let report = match outcome {
            Ok(result) => HostReport::Ended { id, stored: true, result: Some(Box::new(result)), error: None },
            Err(error) => {
                write_message(&HostReport::Message { id, message: AttemptMessage::Error { error: error.clone() } });
                HostReport::Ended { id, stored: false, result: None, error: Some(error) }
            }
        };
        write_message(&report);
        self.running().remove(&id);
        self.ended.notify_all();
    }

    fn attempt(&self, id: u64, running: &RunningAttempt, spec: &AttemptSpec) -> Result<AttemptResult> {
        let scratch = self.folders.take(id)?;
        let store = self.store(&running.url, spec)?;
        let work = AttemptRunner {
            url: &running.url,
            mark: &running.url,
            catalogue: self.catalogue,
            store: &store,
            spec,
            scratch: scratch.path(),
            process_tree: Some(&self.process_tree),
            handle: self.handle.clone(),
            cancel: running.cancel.clone(),
            killed: Some(running.killed.subscribe()),
            reporter: Arc::new(redaction::RedactingReporter(HostReporter(id))),
            enter: &|_| {},
        };
        work.run_and_store()
    }

    /// Returns the store of an attempt. The attempts of a host share one open store for each durability.
    fn store(&self, url: &str, spec: &AttemptSpec) -> Result<Store> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let store = match stores.get(&spec.fsync) {
            Some(store) => store.clone(),
            None => {
                let (place, _) = url.rsplit_once('#').unwrap_or((url, ""));
                let store = self.handle.block_on(open_store(place, spec.fsync))?;
                stores.insert(spec.fsync, store.clone());
                store
            }
        };
        let outage = outage(spec);
        Ok(if store.options().outage == outage { store } else { store.with_outage(outage) })
    }

    fn stop_all(&self) {
        self.running().values().for_each(|running| running.cancel.cancel());
    }
    /// Waits until every attempt has ended. Returns false if some still run after `limit`.
    fn all_ended_within(&self, limit: Duration) -> bool {
        let some = |running: &mut HashMap<u64, Arc<RunningAttempt>>| !running.is_empty();
        let waited = self.ended.wait_timeout_while(self.running(), limit, some);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
    fn urls(&self) -> Vec<String> {
        self.running().values().map(|running| running.url.clone()).collect()
    }
    fn running(&self) -> MutexGuard<'_, HashMap<u64, Arc<RunningAttempt>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reporter of the attempt with this id.
struct HostReporter(u64);

impl Reporter for HostReporter {
    fn report(&self, message: AttemptMessage) {
        write_message(&HostReport::Message { id: self.0, message });
    }
}

/// Writes one line to the engine. Errors are ignored: a broken pipe means that the engine died, and then the requests
/// end, too.
fn write_message(report: &HostReport) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(&report.to_line()).and_then(|()| out.flush());
}
