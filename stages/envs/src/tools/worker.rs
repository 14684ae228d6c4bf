//! The worker process: reads batches of calls on stdin, runs them in interpreter sessions, and replies on stdout.
//!
//! It confines itself before the first call ([`confine`]) and ends when stdin ends. Replies are flushed at the end of a
//! batch, or once the last flush is older than 0.2 ms: short calls cost few writes, and a long call holds nothing back.

use crate::tools::ToolLimits;
use crate::tools::confinement::confine;
use crate::tools::interpreter::{Ending, Interpreter, Ran};
use crate::tools::wire::{self, Answered, Job, Recipe, Reply};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use trainyard_core::{Clock, SystemClock};

/// Native stack of the interpreting thread: deeply nested values and sources recurse natively.
const STACK_BYTES: usize = 64 << 20;
/// A session that can be replayed within this time is not snapshotted.
const REPLAY_BUDGET: Duration = Duration::from_millis(2);
/// Larger snapshots are not sent; replaying is cheaper than keeping them.
const MAX_SNAPSHOT: usize = 1 << 20;
/// Assumed cost of reading and compiling one program in a replay, on top of its run time.
const REPLAY_CALL: Duration = Duration::from_micros(20);
const FLUSH_AFTER: Duration = Duration::from_micros(200);

/// Runs a worker until stdin ends. Returns the exit status: 0 at the end of stdin, 2 if the input was not understood.
pub fn main() -> i32 {
    // The parent learns of panics from the reply; nobody reads their text here.
    std::panic::set_hook(Box::new(|_| {}));
    let thread = std::thread::Builder::new().name("interpreter".to_string()).stack_size(STACK_BYTES);
    let served = thread.spawn(|| serve(&mut io::stdin().lock(), &mut io::stdout().lock()));
    match served.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(()))) => 0,
        _ => 2,
    }
}

/// Serves until the input ends.
fn serve(input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    let garbled = || io::Error::new(io::ErrorKind::InvalidData, "not a frame of this protocol");
    let Some(hello) = wire::read_frame(input)? else { return Ok(()) };
    let limits = wire::decode_limits(&hello).ok_or_else(garbled)?;
    confine(limits.memory_bytes)?;
    let mut worker = Worker { limits, sessions: HashMap::new(), clock: SystemClock::new() };
    while let Some(frame) = wire::read_frame(input)? {
        let jobs = wire::decode_jobs(&frame).ok_or_else(garbled)?;
        worker.batch(jobs, output)?;
    }
    Ok(())
}

struct Worker {
    limits: ToolLimits,
    sessions: HashMap<u64, Open>,
    clock: SystemClock,
}

struct Open {
    interpreter: Interpreter,
    /// Program time since the last snapshot.
    unsaved: Duration,
}

impl Worker {
    fn batch(&mut self, jobs: Vec<Job>, output: &mut impl Write) -> io::Result<()> {
        let mut payload = Vec::new();
        let mut flushed = self.clock.monotonic();
        for job in jobs {
            match job {
                Job::Close { session } => drop(self.sessions.remove(&session)),
                Job::Open { session, recipe } => self.open(session, &recipe),
                Job::Call { session, code } => {
                    wire::encode_reply(&self.call(session, &code), &mut payload);
                    let now = self.clock.monotonic();
                    if now.saturating_sub(flushed) > FLUSH_AFTER {
                        wire::write_frame(output, &payload)?;
                        payload.clear();
                        flushed = now;
                    }
                }
            }
        }
        if payload.is_empty() { Ok(()) } else { wire::write_frame(output, &payload) }
    }
    /// Rebuilds a session from its recipe. If that fails, its next call is answered `Missing`.
    fn open(&mut self, session: u64, recipe: &Recipe) {
        self.sessions.remove(&session);
        let limits = &self.limits;
        let made = catch_unwind(AssertUnwindSafe(|| {
            let mut interpreter = match &recipe.snapshot {
                Some(bytes) => Interpreter::load(bytes)?,
                None => Interpreter::new(limits),
            };
            let mut unsaved = Duration::ZERO;
            for code in &recipe.history {
                let (kept, ran) = interpreter.run(code, limits);
                interpreter = kept?;
                unsaved += ran.cost + REPLAY_CALL;
            }
            Some(Open { interpreter, unsaved })
        }));
        if let Ok(Some(open)) = made {
            self.sessions.insert(session, open);
        }
    }
    fn call(&mut self, session: u64, code: &str) -> Reply {
        let Some(Open { interpreter, mut unsaved }) = self.sessions.remove(&session) else {
            return Reply { answered: Answered::Missing, text: String::new(), cost: 0, snapshot: None };
        };
        let limits = &self.limits;
        let Ok((kept, ran)) = catch_unwind(AssertUnwindSafe(|| interpreter.run(code, limits))) else {
            let text = "SystemError: the interpreter failed on this program".to_string();
            return Reply { answered: Answered::Panicked, text, cost: 0, snapshot: None };
        };
        let Ran { ending, text, cost } = ran;
        let mut snapshot = None;
        if let Some(interpreter) = kept {
            unsaved += cost + REPLAY_CALL;
            if unsaved > REPLAY_BUDGET {
                snapshot = interpreter.save().filter(|bytes| bytes.len() <= MAX_SNAPSHOT);
                unsaved = Duration::ZERO;
            }
            self.sessions.insert(session, Open { interpreter, unsaved });
        }
        let answered = match ending {
            Ending::Fine => Answered::Fine,
            Ending::Failed => Answered::Failed,
            Ending::TimedOut => Answered::TimedOut,
        };
        Reply { answered, text, cost: u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX), snapshot }
    }
}
