//! The processes of one program, as whoever asks it sees them.

use crate::folder::Folder;
use crate::lane::{Lane, Setting};
use crate::options::ProgramOptions;
use crate::program::unblocked;
use crate::queue::{Job, Queue};
use crate::ticket::Ticket;
use crate::wire::{self, Request};
use crate::words::Log;
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use trainyard_core::{Error, Result};

/// What a program is started for.
#[derive(Debug, Clone, Copy)]
pub struct Hello<'a> {
    /// `reward`, `rule`, `verifier`, `tool`, `environment`.
    pub role: &'a str,
    /// The part's name in records; empty if it has none.
    pub name: &'a str,
    /// Seed of everything random in the program.
    pub seed: u64,
}

/// Processes of one program. They start with the first request and end when this is dropped.
pub struct Workers {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    place: String,
}

impl Workers {
    /// Lays the program's files out and starts the threads that will own its processes.
    ///
    /// Errors: invalid (options, missing files), retryable (no threads).
    pub fn start(options: &ProgramOptions, hello: Hello<'_>, log: Log) -> Result<Arc<Self>> {
        let Hello { role, name, seed } = hello;
        let place = format!("{role} `{}` ({})", if name.is_empty() { "process" } else { name }, options.shown());
        if let Some(problem) = options.problems().into_iter().next() {
            let error = Error::invalid(problem.message).at(problem.pointer.trim_start_matches('/')).at(place);
            return Err(problem.help.into_iter().fold(error, Error::help));
        }
        let setting = Arc::new(Setting {
            folder: Folder::lay_out(options).map_err(|e| e.at(&place))?,
            hello: wire::hello(role, name, &options.options, seed),
            timeout: options.time()?,
            variables: options.env.clone(),
            place: place.clone(),
            log,
        });
        let failed = |e: io::Error| Error::retryable(format!("cannot start the threads of a program: {e}"));
        let (mut ears, mut wakers) = (Vec::new(), Vec::new());
        for _ in 0..options.workers {
            let (ear, waker) = io::pipe().map_err(failed)?;
            unblocked(&ear).and_then(|()| unblocked(&waker)).map_err(failed)?;
            ears.push(ear);
            wakers.push(waker);
        }
        let queue = Arc::new(Queue::new(wakers));
        let mut workers = Self { queue, threads: Vec::new(), place };
        for (number, ear) in ears.into_iter().enumerate() {
            let lane = Lane::new(number, Arc::clone(&workers.queue), Arc::clone(&setting), ear);
            let thread = std::thread::Builder::new().name(format!("{role}-{number}"));
            workers.threads.push(thread.spawn(move || lane.run()).map_err(failed)?);
        }
        Ok(Arc::new(workers))
    }
    /// The program in messages.
    pub fn place(&self) -> &str {
        &self.place
    }
    /// Number of processes; each is a lane.
    pub fn lanes(&self) -> usize {
        self.queue.lanes()
    }
    /// What the program said when it was ready; it starts if it does not run.
    pub fn ready(&self) -> Ticket {
        let (ticket, responder) = Ticket::new();
        self.queue.put_on(0, Job::new(None, responder, None));
        ticket
    }
    /// Asks any process. `body` is a map of the keys of the operation `op`.
    pub fn ask(&self, op: &str, body: &impl Serialize) -> Result<Ticket> {
        let (ticket, responder) = Ticket::new();
        self.queue.put(Job::new(Some(Request::new(op, body)?), responder, None));
        Ok(ticket)
    }
    /// Asks one process. A request that needs what an earlier one left there names the `life` of that answer: once the
    /// process is another one, the answer is [`crate::Fault::Lost`].
    pub fn ask_on(&self, lane: usize, life: Option<u64>, op: &str, body: &impl Serialize) -> Result<Ticket> {
        let (ticket, responder) = Ticket::new();
        self.queue.put_on(lane % self.lanes(), Job::new(Some(Request::new(op, body)?), responder, life));
        Ok(ticket)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.shut();
        for thread in self.threads.drain(..) {
            // After a panic there is nothing left to end: the process ended with its thread.
            let _ = thread.join();
        }
    }
}
