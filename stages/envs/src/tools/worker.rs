//! Implements the worker process, which reads batches of calls on stdin, runs them in its sessions, and replies on
//! stdout.
//!
//! The first frame selects the interpreter: the embedded one or SQLite, for which the worker confines and isolates
//! itself ([`confine`], `isolation`), or CPython, whose processes confine themselves one by one. The worker ends when
//! stdin ends. It flushes replies at the end of a batch and after each call that ends more than 0.2 ms after the last
//! flush. So short calls cause few writes, and a long call delays only the replies of the short calls right before it.

use crate::tools::ToolLimits;
use crate::tools::confinement::confine;
use crate::tools::confinement::isolation::{self, FilesForbidden};
use crate::tools::cpython::sandbox;
use crate::tools::cpython::sessions::CpythonSessions;
use crate::tools::embedded::EmbeddedSessions;
use crate::tools::hello::{WorkerSetup, decode_hello};
use crate::tools::sql::sessions::SqlSessions;
use crate::tools::wire::{self, ToolWorkerJob};
use crate::tools::worker_sessions::WorkerSessions;
use std::io::{self, Read, Write};
use std::time::Duration;
use trainyard_core::{Clock, SystemClock};

/// Size of the native stack of the interpreting thread, on which deeply nested values and sources recurse.
const STACK_BYTES: usize = 64 << 20;
const FLUSH_AFTER: Duration = Duration::from_micros(200);

/// Runs a worker until stdin ends. Returns the exit status: 0 at the end of stdin, 2 on invalid input.
///
/// If the second argument is a sandbox specification, this process becomes a sandboxed CPython instead, and the
/// function returns only on failure.
pub fn main() -> i32 {
    if let Some(spec) = std::env::args().nth(2) {
        return sandbox::main(&spec);
    }
    if begin().is_ok() { 0 } else { 2 }
}

/// Reads the setup, takes this process's files unless it supervises CPython, and serves on a thread with a large stack.
fn begin() -> io::Result<()> {
    let Some(hello) = wire::read_frame(&mut io::stdin().lock())? else { return Ok(()) };
    let (limits, setup) = decode_hello(&hello).ok_or_else(invalid_frame)?;
    let isolated = match &setup {
        Some(WorkerSetup::Cpython(_)) => None,
        Some(WorkerSetup::Sql(_)) | None => {
            // The stack of the thread counts, too.
            confine(limits.memory_bytes.saturating_add(STACK_BYTES as u64))?;
            Some(isolation::forbid_files().map_err(io::Error::other)?)
        }
    };
    let thread = std::thread::Builder::new().name("interpreter".to_string()).stack_size(STACK_BYTES);
    let served =
        thread.spawn(move || serve(limits, setup, isolated, &mut io::stdin().lock(), &mut io::stdout().lock()))?;
    served.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
}

/// Serves batches until the input ends. A worker that is isolated keeps what it has and gets no more.
fn serve(
    limits: ToolLimits,
    setup: Option<WorkerSetup>,
    isolated: Option<FilesForbidden>,
    input: &mut impl Read,
    output: &mut impl Write,
) -> io::Result<()> {
    if let Some(isolated) = isolated {
        isolated.forbid_the_rest().map_err(io::Error::other)?;
    }
    let mut sessions: Box<dyn WorkerSessions> = match setup {
        Some(WorkerSetup::Cpython(setup)) => Box::new(CpythonSessions::new(setup, limits)),
        Some(WorkerSetup::Sql(sql)) => Box::new(SqlSessions::confined(limits, sql)?),
        None => Box::new(EmbeddedSessions::new(limits)),
    };
    let clock = SystemClock::new();
    while let Some(frame) = wire::read_frame(input)? {
        let jobs = wire::decode_jobs(&frame).ok_or_else(invalid_frame)?;
        batch(&mut *sessions, jobs, &clock, output)?;
    }
    Ok(())
}

fn invalid_frame() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a frame of this protocol")
}

fn batch(
    sessions: &mut dyn WorkerSessions,
    jobs: Vec<ToolWorkerJob>,
    clock: &SystemClock,
    output: &mut impl Write,
) -> io::Result<()> {
    let mut payload = Vec::new();
    let mut flushed = clock.monotonic();
    for job in jobs {
        match job {
            ToolWorkerJob::Close { session } => sessions.close(session),
            ToolWorkerJob::Open { session, recipe } => sessions.open(session, &recipe),
            ToolWorkerJob::Call { session, code } => {
                wire::encode_reply(&sessions.call(session, &code), &mut payload);
                let now = clock.monotonic();
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
