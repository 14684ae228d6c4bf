//! Runs attempts on simulated machines, with the protocol of attempts that need no parent: heartbeats, cancel requests,
//! the lease, and either a result or a failure at the end. `pipeline/app` implements the protocol with threads, this
//! module with one task.

use super::process::Process;
use super::work;
use super::world::World;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use trainyard_core::attempt::{
    AttemptFailure, AttemptMessage, AttemptResult, AttemptSpec, HEARTBEAT, Heartbeat, Phase, STORE_OUTAGE,
};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Clock, Error, ErrorKind, Result};
use trainyard_store::{CreateOutcome, Store};

/// Poll interval for cancel requests.
const CANCEL_POLL: Duration = Duration::from_secs(5);
/// Maximum time that a stage takes to react to a stop, in milliseconds.
const GRACE: u64 = 10_000;

/// End of an attempt as observed by its machine: success, or an exit code.
pub type Exit = std::result::Result<(), Error>;

/// Why an attempt stops before its stage ends.
struct Stop {
    outcome: AttemptOutcome,
    error: Error,
    /// Whether the attempt stops because its run seemed to have no writer.
    unwanted: bool,
}

impl Stop {
    fn with(outcome: AttemptOutcome, error: Error) -> Self {
        Self { outcome, error, unwanted: false }
    }
}

/// Runs the attempt of this folder to its end. `signal` requests the attempt to stop.
pub async fn run(world: Arc<World>, process: Arc<Process>, folder: String, signal: watch::Receiver<bool>) -> Exit {
    let store = world.store_of(&process, STORE_OUTAGE).await;
    let spec = store.spec_in(&folder).await?;
    let store = store.with_outage(spec.store_outage_millis.map_or(STORE_OUTAGE, Duration::from_millis));
    if store.result(&spec.run, &spec.stage, spec.attempt).await?.is_some()
        || store.failure(&spec.run, &spec.stage, spec.attempt).await?.is_some()
    {
        return Err(Error::lost("the attempt has ended already"));
    }
    let attempt = Attempt {
        impatient: store.with_outage(Duration::ZERO),
        world,
        process,
        store,
        spec,
        last_report: Mutex::default(),
    };
    attempt.to_its_end(signal).await
}

struct Attempt {
    world: Arc<World>,
    process: Arc<Process>,
    store: Store,
    impatient: Store,
    spec: AttemptSpec,
    /// Progress and checkpoint for the next heartbeat.
    last_report: Mutex<(Option<AttemptMessage>, Option<u64>)>,
}

impl Attempt {
    async fn to_its_end(&self, signal: watch::Receiver<bool>) -> Exit {
        let maker = self.process.name();
        let outcome = tokio::select! {
            biased;
            stop = self.until_stopped(signal) => {
                // Heartbeats continue while the stage shuts down.
                let grace = self.world.draw("grace").below(GRACE);
                tokio::select! {
                    biased;
                    () = self.beat() => {}
                    () = tokio::time::sleep(Duration::from_millis(grace)) => {}
                }
                Err(stop)
            }
            () = self.beat() => return Ok(()),
            outcome = work::carry_out(&self.world, &self.store, &self.spec, &maker, |message| self.report(message)) => {
                outcome.map_err(|error| Stop::with(outcome_of(&error), error))
            }
        };
        match outcome {
            Ok(result) => self.leave(result).await,
            Err(stop) => self.fail(stop).await,
        }
    }

    async fn leave(&self, result: AttemptResult) -> Exit {
        match self.store.put_result(&result).await {
            Ok(CreateOutcome::Ours) => {
                self.world.trace.record(self.process.name(), format_args!("left the result of {}", self.spec.stage));
                Ok(())
            }
            Ok(CreateOutcome::Theirs(_)) => Err(Error::lost("another process ended this attempt")),
            Err(error) => self.fail(Stop::with(AttemptOutcome::Failed, error)).await,
        }
    }
    async fn fail(&self, Stop { outcome, error, unwanted }: Stop) -> Exit {
        self.world.trace.record(self.process.name(), format_args!("fails {}: {error}", self.spec.stage));
        let spec = &self.spec;
        let (run, stage, attempt) = (spec.run.clone(), spec.stage.clone(), spec.attempt);
        let failure = AttemptFailure { format: 1, run, stage, attempt, outcome, error: error.clone(), unwanted };
        // An attempt that cannot store its failure ends without one.
        let _ = self.store.put_failure(&failure).await;
        Err(error)
    }
    fn report(&self, message: AttemptMessage) {
        let mut report = self.last_report.lock().unwrap();
        match message {
            AttemptMessage::Checkpoint { step } => report.1 = Some(step),
            other => report.0 = Some(other),
        }
    }

    /// Sends heartbeats forever.
    async fn beat(&self) {
        let (spec, store) = (&self.spec, &self.impatient);
        let last = store.heartbeat(&spec.run, &spec.stage, spec.attempt).await;
        let mut beat = last.ok().flatten().map_or(0, |last| last.beat);
        loop {
            beat += 1;
            let (progress, checkpoint) = self.last_report.lock().unwrap().clone();
            let heartbeat = Heartbeat {
                format: 1,
                beat,
                at: self.process.clock.unix_millis(),
                host: format!("h{}", self.process.host),
                phase: Phase::Running,
                progress,
                checkpoint,
            };
            // A heartbeat that cannot be stored is ignored: the next one may succeed.
            let _ = store.put_heartbeat(spec, &heartbeat).await;
            tokio::time::sleep(HEARTBEAT).await;
        }
    }

    async fn until_stopped(&self, signal: watch::Receiver<bool>) -> Stop {
        let limit = self.spec.timeout_millis.map_or(Duration::MAX, Duration::from_millis);
        tokio::select! {
            biased;
            () = signalled(signal) => {
                Stop::with(AttemptOutcome::Lost, Error::lost("stopped by SIGTERM").by_preemption())
            }
            timed_out = self.wait_for_cancel() => stop_of(timed_out),
            why = crate::lease::watch(&self.impatient, &self.spec, self.process.clock.as_ref()) => {
                let error = Error::lost(format!("the lease of the attempt ended: {why:?}"));
                Stop { outcome: AttemptOutcome::Lost, error, unwanted: true }
            }
            () = tokio::time::sleep(limit) => stop_of(true),
        }
    }
    /// Waits for a cancel request; returns whether it is for a timeout.
    async fn wait_for_cancel(&self) -> bool {
        loop {
            if let Ok(Some(request)) = self.impatient.cancel_request(&self.spec).await {
                return request.timed_out;
            }
            tokio::time::sleep(CANCEL_POLL).await;
        }
    }
}

async fn signalled(mut signal: watch::Receiver<bool>) {
    if signal.wait_for(|given| *given).await.is_err() {
        std::future::pending().await
    }
}

fn stop_of(timed_out: bool) -> Stop {
    if timed_out {
        Stop::with(AttemptOutcome::TimedOut, Error::retryable("the attempt did not end within its timeout"))
    } else {
        Stop::with(AttemptOutcome::Cancelled, Error::cancelled("the attempt was stopped"))
    }
}

fn outcome_of(error: &Error) -> AttemptOutcome {
    if error.kind == ErrorKind::Lost { AttemptOutcome::Lost } else { AttemptOutcome::Failed }
}

/// Runs an attempt on the pipes of an engine: sends messages to `on_message`, and uses no heartbeats, lease or cancel
/// requests.
pub async fn run_on_pipes(
    world: &World,
    store: &Store,
    spec: &AttemptSpec,
    maker: &str,
    on_message: impl Fn(AttemptMessage),
) -> Result<AttemptResult> {
    let result = work::carry_out(world, store, spec, maker, on_message).await?;
    match store.put_result(&result).await? {
        CreateOutcome::Ours => Ok(result),
        CreateOutcome::Theirs(_) => Err(Error::lost("another process ended this attempt")),
    }
}
