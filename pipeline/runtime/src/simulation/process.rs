//! Simulates the processes of machines, and their clocks.
//!
//! A process is a group of tasks that access the world only through the store and the executors. A killed process gets
//! no responses and sends no requests, because its tasks wait forever. Requests that it has sent may still arrive.

use crate::resume::MachineProcesses;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use trainyard_core::Clock;

/// 2026-11-21T00:00:00Z, the start of every simulation.
const BEGIN: i64 = 1_795_219_200_000;

/// True time, which follows the paused time of the runtime.
#[derive(Clone, Copy)]
pub struct Time(tokio::time::Instant);

impl Time {
    #[expect(clippy::disallowed_methods, reason = "paused time is injected time")]
    pub fn begin() -> Self {
        Self(tokio::time::Instant::now())
    }
    /// Returns the time since the simulation began.
    pub fn now(&self) -> Duration {
        self.0.elapsed()
    }
    /// Returns the time in Unix milliseconds.
    pub fn unix_millis(&self) -> i64 {
        BEGIN + self.now().as_millis() as i64
    }
}

/// Clock of one process. Its monotonic time is correct; its wall-clock time may be incorrect.
pub struct SimulatedClock {
    time: Time,
    wrong: AtomicI64,
}

impl SimulatedClock {
    /// Sets the error of the wall clock, in milliseconds.
    pub fn set_wrong(&self, by: i64) {
        self.wrong.store(by, Ordering::SeqCst);
    }
}

impl Clock for SimulatedClock {
    fn unix_millis(&self) -> i64 {
        self.time.unix_millis() + self.wrong.load(Ordering::SeqCst)
    }
    fn monotonic(&self) -> Duration {
        self.time.now()
    }
}

/// When a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashPoint {
    /// Index of the journal write, from 0.
    pub write: u64,
    /// Whether the process dies after the store has accepted the write; otherwise it dies before it sends the write.
    pub after: bool,
}

pub struct Process {
    pub id: u32,
    pub host: u32,
    pub clock: Arc<SimulatedClock>,
    ended: watch::Sender<bool>,
    crash_point: Mutex<Option<CrashPoint>>,
}

impl Process {
    /// Returns the unique name of the process.
    pub fn name(&self) -> String {
        format!("h{}:{}:1", self.host, self.id)
    }
    pub fn is_alive(&self) -> bool {
        !*self.ended.borrow()
    }
    /// Ends the process; its tasks do nothing from now on.
    pub fn end(&self) {
        self.ended.send_replace(true);
    }
    pub async fn until_it_ends(&self) {
        // The sender is a field of this process.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
    /// Returns only while the process is alive.
    pub async fn goes_on(&self) {
        if !self.is_alive() {
            std::future::pending().await
        }
    }
    pub fn crashes_at(&self, doom: CrashPoint) {
        *self.crash_point.lock().unwrap() = Some(doom);
    }
    /// Counts a write to a journal; returns the doom if the process dies at this write.
    pub fn writes_journal(&self) -> Option<CrashPoint> {
        let mut doom = self.crash_point.lock().unwrap();
        match doom.as_mut() {
            Some(CrashPoint { write: 0, .. }) => doom.take(),
            Some(later) => {
                later.write -= 1;
                None
            }
            None => None,
        }
    }
}

/// All processes that ever lived.
pub struct Population {
    time: Time,
    all: Mutex<Vec<Arc<Process>>>,
}

impl Population {
    pub fn new(time: Time) -> Self {
        Self { time, all: Mutex::default() }
    }
    /// Creates a process on this host.
    pub fn born(&self, host: u32) -> Arc<Process> {
        let mut all = self.all.lock().unwrap();
        let process = Arc::new(Process {
            id: all.len() as u32 + 1,
            host,
            clock: Arc::new(SimulatedClock { time: self.time, wrong: AtomicI64::new(0) }),
            ended: watch::Sender::new(false),
            crash_point: Mutex::default(),
        });
        all.push(process.clone());
        process
    }
    pub fn living(&self) -> Vec<Arc<Process>> {
        self.all.lock().unwrap().iter().filter(|process| process.is_alive()).cloned().collect()
    }
    fn find(&self, id: u32) -> Option<Arc<Process>> {
        self.all.lock().unwrap().get(id.checked_sub(1)? as usize).cloned()
    }
}

/// Processes as seen by one of them: those of its host.
pub struct SimulatedProcesses {
    pub population: Arc<Population>,
    pub process: Arc<Process>,
}

impl MachineProcesses for SimulatedProcesses {
    fn own(&self) -> String {
        self.process.name()
    }
    fn is_alive(&self, name: &str) -> Option<bool> {
        let mut fields = name.split(':');
        let host = fields.next()?.strip_prefix('h')?.parse::<u32>().ok()?;
        let process = self.population.find(fields.next()?.parse().ok()?)?;
        (host == self.process.host).then(|| process.is_alive())
    }
}
