//! A detached attempt: its spec, request to stop, log and result are all in its folder of the store.
//!
//! While the stage has the main thread, the runtime's worker writes heartbeats and the log, checks for the request to
//! stop and for a live writer, and handles SIGTERM, the first signal that Slurm, Kubernetes and Ray send. A thread that
//! needs neither the store nor the stage enforces the end: at the deadline, or after any other reason to stop, the
//! stage gets a grace period, then all processes that the attempt started are killed and the process exits. Panics and
//! SIGKILL leave no record; the executor detects them.

use super::guard::Guard;
use super::heartbeat::Beats;
use super::opening::{open, runtime, span};
use super::redaction;
use super::stop::{Stop, Stops, outcome_of, stale};
use super::work::Work;
use crate::catalogue::Catalogue;
use crate::scratch::Scratch;
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
use trainyard_store::{Created, Store};

/// Interval of checks for the request to stop.
const ASKED: Duration = Duration::from_secs(5);
/// Time between the request to stop and the kill of all processes that the attempt started.
const GRACE: Duration = Duration::from_secs(10);
/// Time to report the reason once everything is killed.
const LAST_WORDS: Duration = Duration::from_secs(30);

/// Runs the attempt. The error, if any, was already reported: to the attempt's folder if it exists, and on stderr,
/// which is the executor's own log.
pub fn main(url: &str, catalogue: &Catalogue) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let started = clock.monotonic();
    let runtime = runtime().inspect_err(say)?;
    let (store, spec) = runtime.block_on(open_new(url)).inspect_err(say)?;
    let _span = span(&spec).entered();
    let guard = Guard::of(url);
    let token = CancelToken::default();
    let (attempt, writing) = {
        let _inside = runtime.enter();
        Detached::begin(url, store, spec, token.clone(), (clock, started))
    };
    let result = Scratch::new().and_then(|scratch| {
        let work = Work {
            url,
            catalogue,
            store: &attempt.store,
            spec: &attempt.spec,
            scratch: scratch.path(),
            family: None,
            handle: runtime.handle().clone(),
            cancel: token,
            killed: None,
            reporter: attempt.clone(),
            enter: &|phase| attempt.beats.enter(phase),
        };
        work.result()
    });
    let outcome = runtime.block_on(attempt.end(result.map_err(redaction::error)));
    attempt.log.close();
    // The task only writes what is left; if it panicked, the log is short.
    let _ = runtime.block_on(writing);
    // A hanging request must not block the exit.
    runtime.shutdown_background();
    drop(guard);
    outcome
}

/// Reports on stderr that there is no result.
fn say(error: &Error) {
    let causes: Vec<&str> = error.causes().collect();
    tracing::error!(?causes, "the attempt did not succeed: {error}");
}

/// Opens the store and the spec of an attempt that has not ended: a batch system may start a job again, and late.
async fn open_new(url: &str) -> Result<(Store, AttemptSpec)> {
    let (store, spec) = open(url).await?;
    let has_result = store.result(&spec.run, &spec.stage, spec.attempt).await?.is_some();
    if has_result || store.failure(&spec.run, &spec.stage, spec.attempt).await?.is_some() {
        return Err(Error::lost(format!("attempt {} of {} has ended already", spec.attempt, spec.stage))
            .help("nothing is to be done: what it left counts"));
    }
    Ok((store, spec))
}

struct Detached {
    url: String,
    store: Store,
    /// The same store, for requests that must not wait out an outage.
    impatient: Store,
    spec: AttemptSpec,
    clock: Arc<dyn Clock>,
    started: Duration,
    stops: Stops,
    beats: Beats,
    log: Arc<ChunkWriter>,
    handle: Handle,
    /// Reason for the failure, once reported.
    failure: OnceCell<Error>,
}

impl Reporter for Detached {
    fn report(&self, message: AttemptMessage) {
        let message = redaction::message(message);
        self.beats.message(&message);
        self.log.message(&message);
    }
}

impl Detached {
    /// Starts all background work of the attempt. `started` is the start of the process by `clock`. The task ends once
    /// the log is closed. Must be called in a runtime.
    fn begin(
        url: &str,
        store: Store,
        spec: AttemptSpec,
        token: CancelToken,
        (clock, started): (Arc<dyn Clock>, Duration),
    ) -> (Arc<Self>, JoinHandle<()>) {
        let trouble = |text: &str| tracing::warn!("{text}");
        let (log, writing) = ChunkWriter::open(&store, &spec, clock.clone(), trouble);
        let this = Arc::new(Self {
            url: url.to_string(),
            impatient: store.with_outage(Duration::ZERO),
            store,
            spec,
            clock,
            started,
            stops: Stops::new(token),
            beats: Beats::default(),
            log,
            handle: Handle::current(),
            failure: OnceCell::new(),
        });
        // If the signal cannot be handled, it ends the process, as it does by default.
        if let Ok(signal) = signal(SignalKind::terminate()) {
            tokio::spawn(this.clone().hear(signal));
        }
        tokio::spawn(this.clone().look_for_request());
        let (beating, watching, enforcing) = (this.clone(), this.clone(), this.clone());
        tokio::spawn(async move {
            beating.beats.keep(&beating.impatient, &beating.spec, beating.clock.as_ref()).await;
        });
        tokio::spawn(async move {
            let at = watching.as_ref();
            at.stops.stop(lease::watch(&at.impatient, &at.spec, at.clock.as_ref()).await.into());
        });
        std::thread::spawn(move || enforcing.enforce());
        (this, writing)
    }

    async fn hear(self: Arc<Self>, mut terminate: Signal) {
        if terminate.recv().await.is_some() {
            self.stops.stop(Stop::Signal("SIGTERM"));
        }
    }
    async fn look_for_request(self: Arc<Self>) {
        loop {
            match request(&self.impatient, &self.spec).await {
                Ok(Some(request)) => return self.stops.stop(request.into()),
                Ok(None) => {}
                Err(error) => tracing::info!(%error, "the request to stop could not be looked for"),
            }
            tokio::time::sleep(ASKED).await;
        }
    }

    /// Ends the process if it does not end by itself, at its deadline or after a request to stop.
    fn enforce(self: Arc<Self>) {
        let passed = self.clock.monotonic().saturating_sub(self.started);
        let limit = self.spec.timeout_millis.map(|limit| Duration::from_millis(limit).saturating_sub(passed));
        if !self.stops.wait(limit) {
            self.stops.stop(Stop::TimedOut);
        }
        std::thread::sleep(GRACE);
        kill_started(&self.url);
        let (said, hears) = mpsc::channel();
        let saying = self.clone();
        self.handle.spawn(async move {
            saying.fail(Error::cancelled("the stage did not stop in time")).await;
            // The receiver is gone only if this took too long.
            let _ = said.send(());
        });
        // The process must end in any case.
        let _ = hears.recv_timeout(LAST_WORDS);
        std::process::exit(1)
    }

    /// Stores the outcome of the work.
    async fn end(&self, outcome: Result<AttemptResult>) -> Result<()> {
        let error = match outcome {
            Ok(result) => {
                // The log is complete before the result is visible.
                self.log.flush().await;
                let put = self.store.put_result(&result).await;
                kill_started(&self.url);
                match put {
                    Ok(Created::Ours) => return Ok(()),
                    Ok(Created::Theirs(_)) => return Err(stale(&self.spec)).inspect_err(say),
                    Err(error) => error,
                }
            }
            Err(error) => {
                kill_started(&self.url);
                error
            }
        };
        Err(self.fail(error).await)
    }
    /// Records why there is no result, in the log and in `failure.json`. The first error counts.
    async fn fail(&self, error: Error) -> Error {
        let said = self.failure.get_or_init(|| async move {
            let stop = self.stopped().await;
            let unwanted = stop.as_ref().is_some_and(Stop::is_of_a_run_without_a_writer);
            let (outcome, error) = match stop {
                None => (outcome_of(&error), error),
                Some(stop) => {
                    let (outcome, why) = stop.explain(&self.spec);
                    (outcome, if error.kind == ErrorKind::Cancelled { why } else { why.caused_by(&error) })
                }
            };
            say(&error);
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
                tracing::error!(%unstored, "the reason could not be stored");
            }
            error
        });
        said.await.clone()
    }
    /// Returns why the attempt was stopped, if it was. A batch system that was requested to cancel the attempt also
    /// sends a signal.
    async fn stopped(&self) -> Option<Stop> {
        match self.stops.why()? {
            signal @ Stop::Signal(_) => {
                let request = request(&self.impatient, &self.spec).await;
                Some(request.ok().flatten().map_or(signal, Stop::from))
            }
            other => Some(other),
        }
    }
}

/// Returns the request to stop, if there is one. An unreadable request counts as one.
async fn request(store: &Store, spec: &AttemptSpec) -> Result<Option<CancelRequest>> {
    match store.cancel_request(spec).await {
        Err(error) if error.kind == ErrorKind::Data => Ok(Some(CancelRequest { format: 1, timed_out: false })),
        answer => answer,
    }
}
