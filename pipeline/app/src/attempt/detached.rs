//! Runs a detached attempt, which communicates only through its folder of the store: its spec, the request to stop, its
//! log and its result.
//!
//! The stage runs on the main thread. Meanwhile a runtime worker writes heartbeats and the log, polls for a request to
//! stop, verifies that the run still has a live writer, and handles SIGTERM, the first signal that Slurm, Kubernetes
//! and Ray send. A separate thread, which needs neither the store nor the stage, enforces the end: at the deadline, or
//! after another reason to stop, the stage gets a grace period. Then the thread stores the failure, kills all processes
//! that the attempt started, and exits the process. Panics of the attempt and SIGKILL leave no record; the executor
//! detects them.

use super::guard::Guard;
use super::heartbeat::HeartbeatPublisher;
use super::runner::AttemptRunner;
use super::setup::{open, runtime, span};
use super::stop::{AttemptStop, StopSignal, outcome_of, stale};
use super::{mark, redaction};
use crate::catalogue::Catalogue;
use crate::scratch::ScratchFolder;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use trainyard_api::{CancelToken, Reporter};
use trainyard_core::attempt::{AttemptFailure, AttemptMessage, AttemptResult, AttemptSpec, CancelRequest};
use trainyard_core::{Clock, Error, ErrorKind, Result, SystemClock};
use trainyard_runtime::chunks::ChunkWriter;
use trainyard_runtime::executors::kill_started;
use trainyard_runtime::lease;
use trainyard_store::{CreateOutcome, Store};

/// Interval at which the attempt checks for a request to stop.
const REQUEST_INTERVAL: Duration = Duration::from_secs(5);
/// Time between the request to stop and the kill of all processes that the attempt started.
const GRACE: Duration = Duration::from_secs(10);
/// Time to store the failure before the kill of all processes that the attempt started.
const FAILURE_HEAD_START: Duration = Duration::from_secs(5);
/// Time limit for storing the failure after the kill.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the attempt. An error was already reported on stderr, which is the executor's log, and in the attempt's folder
/// if that could be opened.
pub fn main(url: &str, mark: &str, catalogue: &Catalogue) -> Result<()> {
    mark::adopt_orphans();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let started = clock.monotonic();
    let runtime = runtime().inspect_err(log_error)?;
    let (store, spec) = runtime.block_on(open_new(url)).inspect_err(log_error)?;
    let _span = span(&spec).entered();
    let guard = Guard::of(mark);
    let token = CancelToken::default();
    let (attempt, writing) = {
        let _inside = runtime.enter();
        DetachedAttempt::begin(mark, store, spec, token.clone(), (clock, started))
    };
    let result = ScratchFolder::new().and_then(|scratch| {
        let work = AttemptRunner {
            url,
            mark,
            catalogue,
            store: &attempt.store,
            spec: &attempt.spec,
            scratch: scratch.path(),
            process_tree: None,
            handle: runtime.handle().clone(),
            cancel: token,
            killed: None,
            reporter: attempt.clone(),
            enter: &|phase| attempt.heartbeats.enter(phase),
        };
        work.result()
    });
    let outcome = runtime.block_on(attempt.end(result.map_err(redaction::error)));
    attempt.log.close();
    // The task writes the rest of the log. If it panicked, the log is incomplete.
    let _ = runtime.block_on(writing);
    // Pending requests to the store must not block the exit.
    runtime.shutdown_background();
    drop(guard);
    outcome
}

/// Logs an error that ends the attempt on stderr.
fn log_error(error: &Error) {
    let causes: Vec<&str> = error.causes().collect();
    tracing::error!(?causes, "the attempt did not succeed: {error}");
}

/// Opens the store and the spec of an attempt that has not ended: a batch system may start a job again, even later.
///
/// Errors: lost, if the attempt has ended already.
async fn open_new(url: &str) -> Result<(Store, AttemptSpec)> {
    let (store, spec) = open(url).await?;
    let has_result = store.result(&spec.run, &spec.stage, spec.attempt).await?.is_some();
    if has_result || store.failure(&spec.run, &spec.stage, spec.attempt).await?.is_some() {
        return Err(Error::lost(format!("attempt {} of stage `{}` has already ended", spec.attempt, spec.stage))
            .help("no action is needed: the recorded result or failure is used"));
    }
    Ok((store, spec))
}

struct DetachedAttempt {
    /// Mark of the processes that the attempt starts.
    mark: String,
    store: Store,
    /// The same store, without waiting during an outage.
    direct_store: Store,
    spec: AttemptSpec,
    clock: Arc<dyn Clock>,
    started: Duration,
    stop_signal: StopSignal,
    heartbeats: HeartbeatPublisher,
    log: Arc<ChunkWriter>,
    handle: Handle,
    /// Error that the attempt has recorded as its failure.
    failure: OnceCell<Error>,
}

impl Reporter for DetachedAttempt {
    fn report(&self, message: AttemptMessage) {
        let message = redaction::message(message);
        self.heartbeats.message(&message);
        self.log.message(&message);
    }
}

impl DetachedAttempt {
    /// Starts all background work of the attempt, and returns it with the task that writes the log until the log is
    /// closed. `started` is the time by `clock` at which the process started. The caller must have entered a runtime.
    fn begin(
        mark: &str,
        store: Store,
        spec: AttemptSpec,
        token: CancelToken,
        (clock, started): (Arc<dyn Clock>, Duration),
    ) -> (Arc<Self>, JoinHandle<()>) {
        let warn = |text: &str| tracing::warn!("{text}");
        let (log, writing) = ChunkWriter::open(&store, &spec, clock.clone(), warn);
        let this = Arc::new(Self {
            mark: mark.to_string(),
            direct_store: store.with_outage(Duration::ZERO),
            store,
            spec,
            clock,
            started,
            stop_signal: StopSignal::new(token),
            heartbeats: HeartbeatPublisher::default(),
            log,
            handle: Handle::current(),
            failure: OnceCell::new(),
        });
        // If no handler can be installed, the signal ends the process by default.
        if let Ok(signal) = signal(SignalKind::terminate()) {
            tokio::spawn(this.clone().watch_sigterm(signal));
        }
        tokio::spawn(this.clone().watch_requests());
        let (beating, watching, enforcing) = (this.clone(), this.clone(), this.clone());
        tokio::spawn(async move {
            beating.heartbeats.publish(&beating.direct_store, &beating.spec, beating.clock.as_ref()).await;
        });
        tokio::spawn(async move {
            let at = watching.as_ref();
            at.stop_signal.stop(lease::watch(&at.direct_store, &at.spec, at.clock.as_ref()).await.into());
        });
        std::thread::spawn(move || enforcing.enforce_stop());
        (this, writing)
    }

    async fn watch_sigterm(self: Arc<Self>, mut terminate: Signal) {
        if terminate.recv().await.is_some() {
            self.stop_signal.stop(AttemptStop::Signal("SIGTERM"));
        }
    }
    async fn watch_requests(self: Arc<Self>) {
        loop {
            match cancel_request(&self.direct_store, &self.spec).await {
                Ok(Some(request)) => return self.stop_signal.stop(request.into()),
                Ok(None) => {}
                Err(error) => tracing::info!(%error, "the request to stop could not be read"),
            }
            tokio::time::sleep(REQUEST_INTERVAL).await;
        }
    }

    /// Ends the process if it does not end by itself after its deadline or a request to stop.
    fn enforce_stop(self: Arc<Self>) {
        let passed = self.clock.monotonic().saturating_sub(self.started);
        let limit = self.spec.timeout_millis.map(|limit| Duration::from_millis(limit).saturating_sub(passed));
        if !self.stop_signal.wait(limit) {
            self.stop_signal.stop(AttemptStop::TimedOut);
        }
        std::thread::sleep(GRACE);
        let (sender, receiver) = mpsc::channel();
        let reporting = self.clone();
        self.handle.spawn(async move {
            reporting.fail(Error::cancelled("the stage did not stop in time")).await;
            // The receiver is dropped only after `FAILURE_TIMEOUT`.
            let _ = sender.send(());
        });
        // The failure is stored before the kill, which may end this process as well. A store that does not respond
        // delays neither the kill nor the end of the process.
        if receiver.recv_timeout(FAILURE_HEAD_START).is_err() {
            kill_started(&self.mark);
            let _ = receiver.recv_timeout(FAILURE_TIMEOUT);
        }
        kill_started(&self.mark);
        std::process::exit(1)
    }

    /// Stores the result, or records the failure. Then kills all processes that the attempt started: a batch system
    /// may end the whole job as soon as one of them is killed, so nothing is left to be recorded by then.
    async fn end(&self, outcome: Result<AttemptResult>) -> Result<()> {
        let recorded = self.record(outcome).await;
        kill_started(&self.mark);
        recorded
    }
    async fn record(&self, outcome: Result<AttemptResult>) -> Result<()> {
        let result = match outcome {
            Ok(result) => result,
            Err(error) => return Err(self.fail(error).await),
        };
        // The log must be complete before the result is visible.
        self.log.flush().await;
        match self.store.put_result(&result).await {
            Ok(CreateOutcome::Ours) => Ok(()),
            Ok(CreateOutcome::Theirs(_)) => Err(stale(&self.spec)).inspect_err(log_error),
            Err(error) => Err(self.fail(error).await),
        }
    }
    /// Records the failure in the log and in `failure.json`, and returns the recorded error. Only the first call
    /// records.
    async fn fail(&self, error: Error) -> Error {
        let recorded = self.failure.get_or_init(|| async move {
            let stop = self.stop_reason().await;
            let unwanted = stop.as_ref().is_some_and(AttemptStop::is_abandoned);
            let (outcome, error) = match stop {
                None => (outcome_of(&error), error),
                Some(stop) => {
                    let (outcome, why) = stop.explain(&self.spec);
                    (outcome, if error.kind == ErrorKind::Cancelled { why } else { why.caused_by(&error) })
                }
            };
            log_error(&error);
            self.report(AttemptMessage::Error { error: error.clone() });
            self.log.flush().await;
            let spec = &self.spec;
            let failure = AttemptFailure {
                format: 1,
                run: spec.run.clone(),
                stage: spec.stage.clone(),
                attempt: spec.attempt,
                outcome,
                error: error.clone(),
                unwanted,
            };
            if let Err(unstored) = self.store.put_failure(&failure).await {
                tracing::error!(%unstored, "the failure could not be stored");
            }
            error
        });
        recorded.await.clone()
    }
    /// Returns the reason why the attempt was stopped, if it was. A batch system that cancels the attempt on request
    /// also sends a signal, so a stored request takes precedence over a signal.
    async fn stop_reason(&self) -> Option<AttemptStop> {
        match self.stop_signal.reason()? {
            signal @ AttemptStop::Signal(_) => {
                let request = cancel_request(&self.direct_store, &self.spec).await;
                Some(request.ok().flatten().map_or(signal, AttemptStop::from))
            }
            other => Some(other),
        }
    }
}

/// Returns the stored request to stop, if there is one. An unreadable request counts as a request.
async fn cancel_request(store: &Store, spec: &AttemptSpec) -> Result<Option<CancelRequest>> {
    match store.cancel_request(spec).await {
        Err(error) if error.kind == ErrorKind::Data => Ok(Some(CancelRequest { format: 1, timed_out: false })),
        response => response,
    }
}
