//! Simulates the surroundings of daemons: clocks, and processes of runs that write real journals.

use crate::effects::{DaemonEffects, DaemonNotification, RunProcessState, StartRunRequest};
use futures::future::BoxFuture;
use futures::poll;
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;
use trainyard_core::event::{EVENT_FORMAT, Event, EventRecord, RunOutcome, Selection};
use trainyard_core::{Clock, Digest, Result, RunId};
use trainyard_store::{JournalReader, JournalWriter, Store};

/// A clock whose wall and monotonic times are set by the simulation.
pub struct SimulatedClock {
    wall: AtomicI64,
    monotonic: AtomicI64,
}

impl SimulatedClock {
    pub fn at(wall: i64) -> Self {
        Self { wall: AtomicI64::new(wall), monotonic: AtomicI64::new(0) }
    }
    pub fn advance(&self, by: i64) {
        self.wall.fetch_add(by, Ordering::SeqCst);
        self.monotonic.fetch_add(by, Ordering::SeqCst);
    }
    pub fn set(&self, wall: i64, monotonic: i64) {
        self.wall.store(wall, Ordering::SeqCst);
        self.monotonic.store(monotonic, Ordering::SeqCst);
    }
}

impl Clock for SimulatedClock {
    fn unix_millis(&self) -> i64 {
        self.wall.load(Ordering::SeqCst)
    }
    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic.load(Ordering::SeqCst).cast_unsigned())
    }
}

type Ending = Pin<Box<dyn Future<Output = i32> + Send>>;

/// Process of a run, or of a command that cancels one.
struct Running {
    name: String,
    run: RunId,
    /// Daemon that started it.
    by: String,
    task: Ending,
}

/// State that outlives daemons.
pub struct World {
    store: Store,
    alive: Mutex<BTreeSet<String>>,
    processes: Mutex<Vec<Running>>,
    /// Exit code of the last process of a run that a daemon started; `None` while it is alive.
    ended: Mutex<BTreeMap<(String, RunId), Option<i32>>>,
    cancelled: Mutex<BTreeSet<RunId>>,
    turn: AtomicBool,
    count: AtomicI64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

impl World {
    pub fn new(store: Store) -> Self {
        Self {
            store,
            alive: Mutex::default(),
            processes: Mutex::default(),
            ended: Mutex::default(),
            cancelled: Mutex::default(),
            turn: AtomicBool::new(false),
            count: AtomicI64::new(0),
        }
    }
    pub fn live(&self, name: &str) {
        lock(&self.alive).insert(name.to_string());
    }
    pub fn die(&self, name: &str) {
        lock(&self.alive).remove(name);
    }
    pub fn took_a_turn(&self) -> bool {
        self.turn.swap(false, Ordering::SeqCst)
    }
    /// Kills one process between two of its requests; returns whether there was one.
    pub fn crash_a_process(&self, draw: u64) -> bool {
        let mut processes = lock(&self.processes);
        if processes.is_empty() {
            return false;
        }
        let which = draw as usize % processes.len();
        let gone = processes.remove(which);
        drop(processes);
        self.over(&gone, None);
        true
    }
    /// Counts the runs that were started by more than one daemon.
    pub fn adopted(&self) -> usize {
        let ended = lock(&self.ended);
        let runs: Vec<&RunId> = ended.keys().map(|(_, run)| run).collect();
        let different: BTreeSet<&&RunId> = runs.iter().collect();
        runs.len() - different.len()
    }
    /// Lets one process continue; returns whether it waits.
    pub async fn step_a_process(&self, draw: u64) -> bool {
        let mut running = {
            let mut processes = lock(&self.processes);
            if processes.is_empty() {
                return false;
            }
            let which = draw as usize % processes.len();
            processes.swap_remove(which)
        };
        match poll!(running.task.as_mut()) {
            Poll::Pending => {
                lock(&self.processes).push(running);
                true
            }
            Poll::Ready(code) => {
                self.over(&running, Some(code));
                false
            }
        }
    }
    fn over(&self, gone: &Running, code: Option<i32>) {
        self.die(&gone.name);
        if let Some(ended) = lock(&self.ended).get_mut(&(gone.by.clone(), gone.run.clone())) {
            *ended = Some(code.unwrap_or(-9));
        }
    }
    async fn pause(&self) {
        let mut waited = false;
        poll_fn(|_| {
            if std::mem::replace(&mut waited, true) {
                return Poll::Ready(());
            }
            self.turn.store(true, Ordering::SeqCst);
            Poll::Pending
        })
        .await;
    }
    fn sees_alive(&self, host: usize, name: &str) -> Option<bool> {
        let there = name.starts_with(&format!("h{host}/"));
        there.then(|| lock(&self.alive).contains(name))
    }
}

/// Effects of one daemon.
pub struct Host {
    world: Arc<World>,
    host: usize,
    daemon: String,
}

impl Host {
    pub fn new(world: &Arc<World>, host: usize, daemon: &str) -> Self {
        Self { world: world.clone(), host, daemon: daemon.to_string() }
    }
    /// Waits for the time between two passes.
    pub async fn pause(&self) {
        self.world.pause().await;
    }
    fn spawn(&self, run: &RunId, task: impl FnOnce(String) -> Ending) {
        let number = self.world.count.fetch_add(1, Ordering::SeqCst);
        let name = format!("h{}/p{number}", self.host);
        self.world.live(&name);
        let task = task(name.clone());
        let running = Running { name, run: run.clone(), by: self.daemon.clone(), task };
        lock(&self.world.processes).push(running);
    }
}

impl DaemonEffects for Host {
    fn is_alive(&self, name: &str) -> Option<bool> {
        self.world.sees_alive(self.host, name)
    }
    fn start<'a>(&'a self, request: &'a StartRunRequest) -> BoxFuture<'a, Result<()>> {
        lock(&self.world.ended).insert((self.daemon.clone(), request.run.clone()), None);
        let (world, host, run) = (self.world.clone(), self.host, request.run.clone());
        self.spawn(&request.run, |name| Box::pin(carry_out(world, host, run, name)));
        Box::pin(async { Ok(()) })
    }
    fn process(&self, run: &RunId) -> RunProcessState {
        match lock(&self.world.ended).get(&(self.daemon.clone(), run.clone())) {
            None => RunProcessState::None,
            Some(None) => RunProcessState::Alive,
            Some(Some(code)) => {
                RunProcessState::Ended { code: Some(*code).filter(|code| *code >= 0), stderr: String::new() }
            }
        }
    }
    fn forget(&self, _: &RunId) {}
    fn cancel(&self, run: &RunId) {
        lock(&self.world.cancelled).insert(run.clone());
        let (world, host, of) = (self.world.clone(), self.host, run.clone());
        let number = self.world.count.fetch_add(1, Ordering::SeqCst);
        let name = format!("h{}/c{number}", self.host);
        self.world.live(&name);
        let task: Ending = Box::pin(write_the_end(world, host, of, name.clone()));
        let running = Running { name, run: run.clone(), by: format!("{} cancels", self.daemon), task };
        lock(&self.world.processes).push(running);
    }
    fn notify(&self, _: DaemonNotification) {}
}

fn record(event: Event) -> serde_json::Value {
    EventRecord { at: 0, event }.to_value().unwrap()
}

/// Reads a journal; returns its reader, whether the run was created, whether it has finished, and its last writer.
async fn read(world: &World, run: &RunId) -> Result<(JournalReader, bool, bool, Option<String>)> {
    let mut journal = JournalReader::new(&world.store, run);
    let (mut created, mut finished, mut writer) = (false, false, None);
    while let Some(batch) = journal.next().await? {
        writer = Some(batch.header.writer.clone());
        created |= batch.events.iter().any(|event| event["type"] == "run_created");
        finished |= batch.events.iter().any(|event| event["type"] == "run_finished");
    }
    Ok((journal, created, finished, writer))
}

/// Runs the process of a run, as `trainyard run --run-id` does; returns its exit code.
async fn carry_out(world: Arc<World>, host: usize, run: RunId, name: String) -> i32 {
    let Ok((journal, created, finished, writer)) = read(&world, &run).await else { return 3 };
    if finished {
        return 2;
    }
    // The real process watches a writer on another host for 30 s; here the daemon has done so already.
    if writer.is_some_and(|writer| world.sees_alive(host, &writer) == Some(true)) {
        return 3;
    }
    let opened = |epoch| record(Event::WriterOpened { epoch, writer: name.clone() });
    let Ok(mut writer) = journal.open_writer(&name, opened).await else { return 3 };
    if !created && writer.append(&[record(began())]).await.is_err() {
        return 3;
    }
    for _ in 0..6 {
        world.pause().await;
        // A heartbeat, which also detects whether the run was taken over.
        if writer.append(&[record(Event::Heartbeat {})]).await.is_err() {
            return 3;
        }
        if lock(&world.cancelled).contains(&run) {
            return end(&mut writer, RunOutcome::Cancelled).await;
        }
    }
    end(&mut writer, RunOutcome::Succeeded).await
}

async fn end(writer: &mut JournalWriter, outcome: RunOutcome) -> i32 {
    match writer.append(&[record(Event::RunFinished { outcome })]).await {
        Ok(_) => i32::from(outcome != RunOutcome::Succeeded),
        Err(_) => 3,
    }
}

/// Cancels an abandoned run, as `cancel_run` does.
async fn write_the_end(world: Arc<World>, host: usize, run: RunId, name: String) -> i32 {
    let Ok((journal, _, finished, writer)) = read(&world, &run).await else { return 3 };
    let gone = writer.is_some_and(|writer| world.sees_alive(host, &writer) != Some(true));
    if finished || !gone {
        return 0;
    }
    let opened = |epoch| record(Event::WriterOpened { epoch, writer: name.clone() });
    let Ok(mut writer) = journal.open_writer(&name, opened).await else { return 3 };
    end(&mut writer, RunOutcome::Cancelled).await
}

fn began() -> Event {
    Event::RunCreated {
        format: EVENT_FORMAT,
        workflow: "s".into(),
        source: "/w/f.yaml".into(),
        plan_digest: Digest::of(b"plan"),
        params: BTreeMap::new(),
        selection: Selection::default(),
        stages: Vec::new(),
    }
}
