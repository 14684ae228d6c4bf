//! The dispatch loop: feeds the engine what happened, journals what it decided, carries out what it commands.
//!
//! Questions to the store (lookups, rows) and stops leave at once, since they change nothing; launches, publications and the
//! end leave only after the journal batch with their events is durable.
//!
//! Why one loop: the engine is synchronous, so whatever happens at once is put into one order here. Refuses: deciding anything itself, and
//! carrying anything out once the run belongs to another writer or its journal cannot be written; attempts are then stopped.

use crate::executors::Wish;
use crate::journal::{Ack, Entry};
use crate::options::{Ending, Interrupt};
use crate::world::World;
use crate::{journal, launch, lookup, publish};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use trainyard_core::event::{Record, RunOutcome};
use trainyard_core::{Error, Result};
use trainyard_engine::fold::RunView;
use trainyard_engine::{Command, Engine, Input, NodeId, Step};
use trainyard_store::{Fenced, JournalWriter};

/// Questions and publications on their way to the store at once.
const CONCURRENT: usize = 48;
/// Happenings taken up before the next batch is handed to the journal.
const TAKE: usize = 1_024;
/// How often other runs' slots are looked at while a stage waits for a pool.
const LOOK_AROUND: Duration = Duration::from_millis(500);
/// After a fencing or a failure, how long attempts get to end before they are killed.
const LAST_GRACE: Duration = Duration::from_secs(15);

/// A run in motion.
pub(crate) struct Dispatch {
    world: World,
    engine: Engine,
    view: RunView,
    happened: UnboundedSender<Input>,
    happenings: UnboundedReceiver<Input>,
    journal: UnboundedSender<Entry>,
    acks: UnboundedReceiver<Ack>,
    /// Running attempts, and how to stop them.
    running: HashMap<NodeId, watch::Sender<Wish>>,
    attempts: JoinSet<()>,
    concurrent: Arc<Semaphore>,
    interrupt: Interrupt,
    interrupts: u8,
    looking_around: bool,
}

enum Over {
    Finished(RunOutcome),
    Fenced(Fenced),
    Failed(Error),
}

impl Dispatch {
    pub fn new(world: World, engine: Engine, view: RunView, writer: JournalWriter, interrupt: Interrupt) -> Self {
        let (happened, happenings) = unbounded_channel();
        let (journal, entries) = unbounded_channel();
        let (acked, acks) = unbounded_channel();
        tokio::spawn(journal::write(writer, world.clone(), entries, acked));
        Self {
            world,
            engine,
            view,
            happened,
            happenings,
            journal,
            acks,
            running: HashMap::new(),
            attempts: JoinSet::new(),
            concurrent: Arc::new(Semaphore::new(CONCURRENT)),
            interrupt,
            interrupts: 0,
            looking_around: false,
        }
    }

    /// A way to tell the engine something from outside.
    pub fn sender(&self) -> UnboundedSender<Input> {
        self.happened.clone()
    }

    /// Runs to the end. `first`: records that stand before the engine's own.
    pub async fn run(mut self, first: Vec<Record>) -> Result<(Ending, RunView)> {
        let mut entry = Entry { records: first, commands: Vec::new() };
        self.step(Input::Begin, &mut entry);
        self.hand_in(entry);
        let over = loop {
            if let Some(over) = self.turn().await {
                break over;
            }
        };
        match over {
            Over::Finished(outcome) => Ok((Ending::Finished(outcome), self.view)),
            Over::Fenced(fenced) => {
                self.world.observer.note(&fenced.to_string());
                self.abandon().await;
                Ok((Ending::Fenced { by: fenced.owner }, self.view))
            }
            Over::Failed(error) => {
                self.abandon().await;
                Err(error)
            }
        }
    }

    async fn turn(&mut self) -> Option<Over> {
        let wake = self.until_wake();
        let look_around = self.engine.queued() > 0 && !self.looking_around;
        tokio::select! {
            biased;
            ack = self.acks.recv() => match ack {
                Some(Ack::Durable(entry)) => return self.durable(entry),
                Some(Ack::Fenced(fenced)) => return Some(Over::Fenced(fenced)),
                Some(Ack::Failed(error)) => return Some(Over::Failed(error)),
                None => return Some(Over::Failed(Error::bug("the journal's writer ended"))),
            },
            () = self.interrupt.beyond(self.interrupts) => {
                self.interrupts += 1;
                self.take(Input::Cancel { why: "interrupted".into() });
            }
            Some(input) = self.happenings.recv() => self.take(input),
            () = sleep(wake) => self.take(Input::Tick),
            () = tokio::time::sleep(LOOK_AROUND), if look_around => self.look_around(),
        }
        None
    }

    /// Milliseconds until the engine wants to be woken.
    fn until_wake(&self) -> Option<u64> {
        let at = self.engine.next_wake()?;
        Some(u64::try_from(at.saturating_sub(self.world.clock.unix_millis())).unwrap_or(0))
    }

    /// Takes up one happening and those that are there already.
    fn take(&mut self, input: Input) {
        let mut entry = Entry::default();
        self.step(input, &mut entry);
        for _ in 0..TAKE {
            match self.happenings.try_recv() {
                Ok(input) => self.step(input, &mut entry),
                Err(_) => break,
            }
        }
        self.hand_in(entry);
    }

    fn step(&mut self, input: Input, entry: &mut Entry) {
        match &input {
            Input::Ended { node, .. } | Input::Recovered { node, .. } => {
                self.running.remove(node);
            }
            Input::Outside { .. } => self.looking_around = false,
            _ => {}
        }
        let Step { records, commands } = self.engine.step(self.world.clock.unix_millis(), input);
        entry.records.extend(records);
        for command in commands {
            match command {
                Command::Lookup { .. } | Command::ReadRows { .. } | Command::Stop { .. } => self.carry_out(command),
                Command::Launch { .. } | Command::Recover { .. } | Command::Publish { .. } | Command::Finish { .. } => {
                    entry.commands.push(command)
                }
            }
        }
    }

    fn hand_in(&mut self, entry: Entry) {
        if !entry.records.is_empty() || !entry.commands.is_empty() {
            // If the writer is gone, its last ack says why and ends the loop.
            let _ = self.journal.send(entry);
        }
    }

    fn durable(&mut self, entry: Entry) -> Option<Over> {
        for record in &entry.records {
            self.view.apply(record);
            self.world.observer.event(record);
        }
        for command in entry.commands {
            if let Command::Finish { outcome } = command {
                return Some(Over::Finished(outcome));
            }
            self.carry_out(command);
        }
        None
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Lookup { node, digest } => self.ask(move |world| async move {
                Input::Looked { node, answer: lookup::look_up(&world.store, &digest).await }
            }),
            Command::ReadRows { node, output, limit } => {
                self.ask(move |world| async move { Input::Rows { node, rows: world.rows.rows(&output, limit).await } });
            }
            Command::Publish { node, attempt, manifest, .. } => {
                self.ask(move |world| async move {
                    Input::Published { node, attempt, answer: publish::publish(&world.store, &manifest).await }
                });
            }
            Command::Launch { node, spec, grant } => {
                let engine = (self.happened.clone(), node);
                self.attempt(node, move |world, wish| async move {
                    let attempt = spec.attempt;
                    Input::Ended { node, attempt, finished: launch::launch(&world, spec, grant, wish, engine).await }
                });
            }
            Command::Recover { node, spec, pool } => self.attempt(node, move |world, wish| async move {
                let attempt = spec.attempt;
                Input::Recovered { node, attempt, finished: launch::recover(&world, spec, &pool, wish).await }
            }),
            Command::Stop { node, kill, .. } => {
                if let Some(wish) = self.running.get(&node) {
                    wish.send_if_modified(|w| {
                        let wanted = if kill { Wish::Kill } else { Wish::Cancel };
                        let rises = wanted > *w;
                        *w = wanted.max(*w);
                        rises
                    });
                }
            }
            Command::Finish { .. } => {}
        }
    }

    /// Asks the store something; bounded, since a plan may have very many questions at once.
    fn ask<F: Future<Output = Input> + Send + 'static>(&self, question: impl FnOnce(World) -> F + Send + 'static) {
        let (world, happened, concurrent) = (self.world.clone(), self.happened.clone(), self.concurrent.clone());
        tokio::spawn(async move {
            let _permit = concurrent.acquire().await;
            // Nobody listens any more only when the run is over.
            let _ = happened.send(question(world).await);
        });
    }

    fn attempt<F: Future<Output = Input> + Send + 'static>(
        &mut self,
        node: NodeId,
        run: impl FnOnce(World, watch::Receiver<Wish>) -> F,
    ) {
        let (wish, wishes) = watch::channel(Wish::Run);
        self.running.insert(node, wish);
        let (running, happened) = (run(self.world.clone(), wishes), self.happened.clone());
        self.attempts.spawn(async move {
            let _ = happened.send(running.await);
        });
        // Those that ended are taken out, so that a long run does not gather them.
        while self.attempts.try_join_next().is_some() {}
    }

    /// Learns what other runs hold of this machine.
    fn look_around(&mut self) {
        for pool in &self.world.pools {
            let Ok(executor) = self.world.executors.get(&pool.executor) else { continue };
            let (happened, name, machines) = (self.happened.clone(), pool.name.clone(), pool.machines.clone());
            self.looking_around = true;
            tokio::task::spawn_blocking(move || {
                for machine in machines {
                    let held = match executor.outside() {
                        Some(Ok(held)) => held,
                        _ => trainyard_engine::Outside::default(),
                    };
                    let _ = happened.send(Input::Outside { pool: name.clone(), machine: machine.name, held });
                }
            });
        }
    }

    /// Stops every attempt without telling anyone: the run belongs to somebody else, or its journal cannot be written.
    async fn abandon(&mut self) {
        for wish in self.running.values() {
            wish.send_replace(Wish::Cancel);
        }
        let all = async { while self.attempts.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_GRACE, all).await.is_err() {
            for wish in self.running.values() {
                wish.send_replace(Wish::Kill);
            }
            let rest = async { while self.attempts.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(LAST_GRACE, rest).await;
        }
    }
}

async fn sleep(millis: Option<u64>) {
    match millis {
        Some(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
        None => std::future::pending().await,
    }
}
