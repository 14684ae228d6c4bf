//! Feeds inputs to the engine, journals its records, and executes its commands, in one loop per run.
//!
//! The engine is synchronous, so concurrent inputs are serialized here. Commands that only read the store, and stops,
//! are executed at once; launches, recoveries, publications and the end wait until the journal batch with their events
//! is durable. While the store is unavailable, attempts continue and everything else waits. When another writer owns
//! the run, or the store was unavailable for too long, the loop executes no further commands. It then stops all
//! attempts, except those that outlive the engine: it leaves them to the next engine unless the user interrupted the
//! run.

mod abandon;
mod query;
mod reminder;

use crate::attempts::PoolClients;
use crate::context::RunContext;
use crate::executors::Control;
use crate::in_process::{InProcessAttempt, InProcessPool};
use crate::journal::{JournalAck, JournalEntry};
use crate::options::{Interrupt, RunEnding, RunOptions};
use crate::query_queue::QueryQueue;
use crate::queue_reminder::QueueReminder;
use crate::stage_claims::StageClaims;
use crate::steady_clock::SteadyClock;
use crate::{journal, launch};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tracing::Instrument as _;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::event::{EventRecord, RunOutcome};
use trainyard_core::{Error, Result};
use trainyard_engine::fold::RunView;
use trainyard_engine::{Command, EngineStep, Input, NodeId, RunEngine};
use trainyard_store::{JournalWriter, WriterFenced};

/// Maximum number of inputs processed before their records are sent to the journal.
const TAKE: usize = 1_024;
/// Number of stages in progress in this process from which more records are expected soon.
const MANY: usize = 128;
/// How often the slots of other runs are checked while a stage waits for a pool.
const USAGE_INTERVAL: Duration = Duration::from_millis(500);
/// How long attempts get to end before they are killed when this engine abandons the run, and how long an interrupted
/// run waits for its journal.
const LAST_GRACE: Duration = Duration::from_secs(15);

/// Run in execution.
pub(crate) struct Dispatcher {
    context: Arc<RunContext>,
    engine: RunEngine,
    view: RunView,
    input_sender: UnboundedSender<Input>,
    input_receiver: UnboundedReceiver<Input>,
    journal: UnboundedSender<JournalEntry>,
    acks: UnboundedReceiver<JournalAck>,
    pool_clients: Arc<PoolClients>,
    claims: Arc<StageClaims>,
    running: BTreeMap<NodeId, ActiveAttempt>,
    /// Stops of attempts whose start is not journaled yet.
    early: BTreeMap<NodeId, Control>,
    attempts: JoinSet<()>,
    queries: QueryQueue,
    in_process: InProcessPool,
    interrupt: Interrupt,
    interrupts: u8,
    /// Number of entries not yet acknowledged by the journal.
    unacknowledged: usize,
    /// After an interrupt: deadline of the journal, by the monotonic clock.
    journal_deadline: Option<Duration>,
    usage_query_pending: bool,
    reminder: QueueReminder,
    /// Time of the engine. Waits must not grow when the wall clock is set.
    steady_clock: SteadyClock,
}

struct ActiveAttempt {
    /// Stops the attempt.
    control: watch::Sender<Control>,
    /// Whether the attempt outlives this engine, for the next owner of the run.
    outlives: bool,
    /// Handle of the task that follows the attempt. Aborting the task does not end an attempt that outlives the engine.
    task: AbortHandle,
}

enum DispatchEnd {
    /// Outcome of the run, and the number of the batch after the journal's end.
    Finished(RunOutcome, u64),
    Fenced(WriterFenced),
    Failed(Error),
}

/// How a run left this process.
pub(crate) struct DispatchResult {
    pub ending: RunEnding,
    pub view: RunView,
    /// Number of the batch after the journal's end, if the run finished here.
    pub end: Option<u64>,
}

impl Dispatcher {
    pub fn new(
        context: RunContext,
        engine: RunEngine,
        view: RunView,
        writer: JournalWriter,
        options: &RunOptions,
    ) -> Self {
        let (input_sender, input_receiver) = unbounded_channel();
        let (journal, journal_entries) = unbounded_channel();
        let (ack_sender, acks) = unbounded_channel();
        let claims = Arc::new(StageClaims::new(&context, writer.run(), writer.writer(), options.new));
        tokio::spawn(journal::write(writer, context.clone(), journal_entries, ack_sender));
        let in_process = context.in_process.clone();
        Self {
            pool_clients: Arc::new(PoolClients::new(&context)),
            claims,
            steady_clock: SteadyClock::new(context.clock.as_ref()),
            context: Arc::new(context),
            engine,
            view,
            queries: QueryQueue::new(&input_sender),
            in_process: InProcessPool::new(in_process, input_sender.clone()),
            input_sender,
            input_receiver,
            journal,
            acks,
            running: BTreeMap::new(),
            early: BTreeMap::new(),
            attempts: JoinSet::new(),
            interrupt: options.interrupt.clone(),
            interrupts: 0,
            unacknowledged: 0,
            journal_deadline: None,
            usage_query_pending: false,
            reminder: QueueReminder::default(),
        }
    }

    /// Returns a sender of inputs for the engine.
    pub fn sender(&self) -> UnboundedSender<Input> {
        self.input_sender.clone()
    }

    /// Runs until the run ends, another writer fences this one, or the journal fails. `first` are records to journal
    /// before those of the engine.
    pub async fn run(mut self, first: Vec<EventRecord>) -> Result<DispatchResult> {
        let mut entry = JournalEntry { records: first, ..JournalEntry::default() };
        self.step(Input::Begin, &mut entry);
        self.send_to_journal(entry);
        let end = loop {
            if let Some(end) = self.run_once().await {
                break end;
            }
        };
        match end {
            DispatchEnd::Finished(outcome, end) => {
                Ok(DispatchResult { ending: RunEnding::Finished(outcome), view: self.view, end: Some(end) })
            }
            DispatchEnd::Fenced(fenced) => {
                tracing::info!(owner = %fenced.owner, epoch = fenced.epoch, "another writer took this run over");
                self.context.observer.note(&fenced.to_string());
                self.abandon().await;
                Ok(DispatchResult { ending: RunEnding::Fenced { by: fenced.owner }, view: self.view, end: None })
            }
            DispatchEnd::Failed(error) => {
                self.abandon().await;
                Err(error)
            }
        }
    }

    async fn run_once(&mut self) -> Option<DispatchEnd> {
        self.remind();
        let wake = self.until_wake();
        let may_query_usage = self.engine.queued() > 0 && !self.usage_query_pending;
        let deadline = self.journal_deadline.filter(|_| self.unacknowledged > 0);
        let remaining = deadline.map(|at| at.saturating_sub(self.context.clock.monotonic()));
        tokio::select! {
            biased;
            ack = self.acks.recv() => match ack {
                Some(JournalAck::Durable(entry, next)) => return self.durable(entry, next),
                Some(JournalAck::Fenced(fenced)) => return Some(DispatchEnd::Fenced(fenced)),
                Some(JournalAck::Failed(error)) => return Some(DispatchEnd::Failed(error)),
                None => return Some(DispatchEnd::Failed(Error::bug("the journal's writer ended"))),
            },
            () = self.interrupt.beyond(self.interrupts) => {
                self.interrupts += 1;
                self.set_journal_deadline();
                self.take(Input::Cancel { why: "interrupted".into() });
            }
            Some(input) = self.input_receiver.recv() => self.take(input),
            () = sleep(remaining) => return Some(DispatchEnd::Failed(unfinished())),
            () = sleep(wake) => self.take(Input::Tick),
            () = tokio::time::sleep(USAGE_INTERVAL), if may_query_usage => self.query_usage(),
        }
        None
    }

    /// Returns the time until the engine's next tick.
    fn until_wake(&self) -> Option<Duration> {
        let at = self.engine.next_wake()?;
        let millis = at.saturating_sub(self.steady_clock.now(self.context.clock.as_ref()));
        Some(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
    }

    /// Sets the deadline of the journal of an interrupted run: stopping a run must not wait for an unavailable store.
    fn set_journal_deadline(&mut self) {
        self.journal_deadline = Some(self.context.clock.monotonic() + LAST_GRACE);
    }

    /// Processes one input and those already queued.
    fn take(&mut self, input: Input) {
        let mut entry = JournalEntry::default();
        self.step(input, &mut entry);
        for _ in 0..TAKE {
            match self.input_receiver.try_recv() {
                Ok(input) => self.step(input, &mut entry),
                Err(_) => break,
            }
        }
        self.send_to_journal(entry);
    }

    fn step(&mut self, input: Input, entry: &mut JournalEntry) {
        match &input {
            Input::Ended { node, .. } | Input::Recovered { node, .. } | Input::FoundElsewhere { node, .. } => {
                self.running.remove(node);
            }
            Input::AttemptWaits { node, why, .. } => self.claims.waits(*node, why.is_some()),
            Input::ExternalUsage { .. } => self.usage_query_pending = false,
            _ => {}
        }
        let clock = self.context.clock.as_ref();
        let EngineStep { mut records, commands } = self.engine.step(self.steady_clock.now(clock), input);
        records.iter_mut().for_each(|record| record.at = clock.unix_millis());
        entry.records.extend(records);
        for command in commands {
            match command {
                Command::Lookup { .. }
                | Command::Watch { .. }
                | Command::ReadRows { .. }
                | Command::Inspect { .. }
                | Command::Stop { .. } => self.execute(command),
                Command::Launch { .. } | Command::Recover { .. } | Command::Publish { .. } | Command::Finish { .. } => {
                    entry.commands.push(command)
                }
            }
        }
    }

    fn send_to_journal(&mut self, entry: JournalEntry) {
        if !entry.records.is_empty() || !entry.commands.is_empty() {
            if self.interrupts > 0 && self.unacknowledged == 0 {
                self.set_journal_deadline();
            }
            self.unacknowledged += 1;
            // If the journal's writer has ended, its last report contains the reason and ends the loop.
            let more_follows = self.engine.in_process_count() >= MANY;
            let _ = self.journal.send(JournalEntry { merged: 1, more_follows, ..entry });
        }
    }

    fn durable(&mut self, entry: JournalEntry, next: u64) -> Option<DispatchEnd> {
        self.unacknowledged -= entry.merged;
        if self.interrupts > 0 {
            self.set_journal_deadline();
        }
        for record in &entry.records {
            tracing::debug!(event = ?record.event, "journaled");
            self.view.apply(record);
            self.context.observer.event(record);
        }
        let mut in_process = Vec::new();
        for command in entry.commands {
            match command {
                Command::Finish { outcome } => return Some(DispatchEnd::Finished(outcome, next)),
                Command::Launch { node, spec, grant, .. } if grant.is_in_process() => {
                    in_process.push(InProcessAttempt { node, span: attempt_span(&spec, &grant.pool), spec });
                }
                command => self.execute(command),
            }
        }
        self.in_process.run(in_process);
        None
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Lookup { .. }
            | Command::Watch { .. }
            | Command::ReadRows { .. }
            | Command::Inspect { .. }
            | Command::Publish { .. } => self.start_query(command),
            Command::Launch { node, spec, grant, claim } => {
                let (span, engine) = (attempt_span(&spec, &grant.pool), (self.input_sender.clone(), node));
                let (pool, clients, claims) = (grant.pool.clone(), self.pool_clients.clone(), self.claims.clone());
                self.attempt(node, &pool, span, move |context, control| async move {
                    let attempt = spec.attempt;
                    if claims.must_wait(node, &spec, claim).await {
                        return Input::FoundElsewhere { node, attempt };
                    }
                    let finished = launch::launch(&context, &clients, spec, grant, control, engine).await;
                    claims.ended(node, finished.result.is_some());
                    Input::Ended { node, attempt, finished }
                });
            }
            Command::Recover { node, spec, pool, handle } => {
                let (span, engine) = (attempt_span(&spec, &pool), (self.input_sender.clone(), node));
                let (pool_name, clients) = (pool.clone(), self.pool_clients.clone());
                self.attempt(node, &pool_name, span, move |context, control| async move {
                    let attempt = spec.attempt;
                    let previous = (pool.as_str(), handle);
                    let finished = launch::recover(&context, &clients, spec, previous, control, engine).await;
                    Input::Recovered { node, attempt, finished }
                });
            }
            Command::Stop { node, kill, .. } => {
                let requested = if kill { Control::Kill } else { Control::Cancel };
                let Some(running) = self.running.get(&node) else {
                    let early = self.early.entry(node).or_insert(requested);
                    *early = requested.max(*early);
                    return;
                };
                running.control.send_if_modified(|w| {
                    let changed = requested > *w;
                    *w = requested.max(*w);
                    changed
                });
            }
            Command::Finish { .. } => {}
        }
    }

    fn attempt<F: Future<Output = Input> + Send + 'static>(
        &mut self,
        node: NodeId,
        pool: &str,
        span: tracing::Span,
        run: impl FnOnce(Arc<RunContext>, watch::Receiver<Control>) -> F,
    ) {
        let (control, controls) = watch::channel(self.early.remove(&node).unwrap_or(Control::Run));
        let (future, inputs) = (run(self.context.clone(), controls), self.input_sender.clone());
        let run_to_end = async move {
            tracing::info!("attempt started");
            let input = future.await;
            if let Input::Ended { finished, .. } = &input {
                let error = finished.error.as_ref().map(tracing::field::display);
                tracing::info!(outcome = ?finished.outcome, error, "attempt ended");
            }
            let _ = inputs.send(input);
        };
        let task = self.attempts.spawn(run_to_end.instrument(span));
        let outlives = self.context.executors.get(pool).is_ok_and(|e| e.capabilities().outlives_engine);
        self.running.insert(node, ActiveAttempt { control, outlives, task });
        // Reap finished tasks, so that a long run does not accumulate them.
        while self.attempts.try_join_next().is_some() {}
    }

    /// Queries the executors for the resources that other runs hold.
    fn query_usage(&mut self) {
        for pool in &self.context.pools {
            let Ok(executor) = self.context.executors.get(&pool.name) else { continue };
            let (inputs, name, machines) = (self.input_sender.clone(), pool.name.clone(), pool.machines.clone());
            self.usage_query_pending = true;
            tokio::spawn(async move {
                for machine in machines {
                    let held = match executor.external_usage().await {
                        Some(Ok(held)) => held,
                        _ => trainyard_engine::ExternalUsage::default(),
                    };
                    let _ = inputs.send(Input::ExternalUsage { pool: name.clone(), machine: machine.name, held });
                }
            });
        }
    }
}

/// Returns the span of an attempt inside that of its stage.
fn attempt_span(spec: &AttemptSpec, pool: &str) -> tracing::Span {
    let stage = tracing::info_span!("stage", stage = %spec.stage, digest = spec.stage_digest.short());
    tracing::info_span!(parent: &stage, "attempt", attempt = spec.attempt, pool)
}

/// Returns the error of a run whose end could not be journaled.
fn unfinished() -> Error {
    Error::cancelled("interrupted while the store is unavailable: the journal does not contain the end of the run")
        .help("run the same command again to resume the run once the store is available")
}

async fn sleep(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
