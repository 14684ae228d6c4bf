//! Runs the thread of a lane, which owns one worker process at a time. It sends jobs, resolves them with their
//! responses, and starts a new worker when one dies or hangs.
//!
//! The open jobs of a lost worker are sent again alone ([`QueuedJob`]). Jobs that require the state of the lost worker
//! are not sent again: the requester must rebuild that state.

use super::queue::JobQueue;
use super::queued_job::{QueuedJob, WorkerExitCause};
use super::wire::{WorkerFailure, WorkerWire};
use crate::output::ProgramLog;
use crate::program::{ChildProgram, wait_for_wake};
use std::collections::{BTreeMap, VecDeque};
use std::io::{PipeReader, Read as _};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::LogLevel;
use trainyard_core::units::format_duration;
use trainyard_core::{Clock as _, Error, Result, SystemClock};

/// Maximum frames that are read in one iteration.
const MAX_FRAMES: usize = 4096;
/// Interval at which a starting lane checks for shutdown.
const SHUTDOWN_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Description of the workers of a supervisor, and their time limit.
pub struct SupervisedProgram {
    /// Name of the program: ``reward `process` (python3 my.py)``.
    pub place: String,
    /// Advice when the program does not start.
    pub help: &'static str,
    /// Advice when the program is not ready in time.
    pub start_help: &'static str,
    /// Time limit of a response.
    pub timeout: Duration,
    /// Time in which a worker must be ready.
    pub start: Duration,
    pub log: ProgramLog,
}

pub struct WorkerLane<W: WorkerWire> {
    number: usize,
    queue: Arc<JobQueue<W::Job>>,
    supervised: Arc<SupervisedProgram>,
    wire: W,
    wake: PipeReader,
    clock: SystemClock,
    program: Option<ChildProgram>,
    /// Number of the current worker in its lane, from 1.
    life: u64,
    /// Number of the last job that was sent.
    next: u64,
    open: BTreeMap<u64, QueuedJob<W::Job>>,
    /// Jobs to send again alone.
    retries: VecDeque<QueuedJob<W::Job>>,
    /// Time limit of a response of the last sent jobs.
    limit: Duration,
    /// Time of the last response, or of the first open job if that is later.
    last_progress: Duration,
    /// Whether the worker may have written more frames than were read.
    has_more: bool,
}

impl<W: WorkerWire> WorkerLane<W> {
    pub fn new(
        number: usize,
        queue: Arc<JobQueue<W::Job>>,
        supervised: Arc<SupervisedProgram>,
        wire: W,
        wake: PipeReader,
    ) -> Self {
        let (clock, open, retries) = (SystemClock::new(), BTreeMap::new(), VecDeque::new());
        Self {
            number,
            queue,
            limit: supervised.timeout,
            supervised,
            wire,
            wake,
            clock,
            program: None,
            life: 0,
            next: 0,
            open,
            retries,
            last_progress: Duration::ZERO,
            has_more: false,
        }
    }
    /// Runs until the queue is shut down.
    pub fn run(mut self) {
        while !self.queue.is_shut_down() {
            self.admit();
            self.wait();
            self.receive();
        }
        if let Some(program) = self.program.take() {
            program.close();
            self.queue.set_worker(self.number, None);
        }
        let entries = std::mem::take(&mut self.open).into_values().chain(std::mem::take(&mut self.retries));
        let waiting = self.queue.take_own(self.number);
        for job in entries.map(|entry| entry.job).chain(waiting) {
            self.wire.fail(job, WorkerFailure::Shut);
        }
    }
    /// Sends the jobs that the capacity permits.
    fn admit(&mut self) {
        if W::CAPACITY.in_batches && !self.open.is_empty() {
            return;
        }
        while let Some(entry) = self.take() {
            self.encode(entry);
        }
        if let (Some(program), Some((bytes, limit))) = (&mut self.program, self.wire.take_bytes()) {
            program.send(&bytes);
            self.limit = limit;
        }
    }
    fn take(&mut self) -> Option<QueuedJob<W::Job>> {
        if !self.retries.is_empty() {
            return if self.open.is_empty() { self.retries.pop_front() } else { None };
        }
        // A job that is sent again stays alone.
        if self.open.values().any(|entry| entry.suspect) {
            return None;
        }
        self.queue.take(self.number, self.open.len(), W::CAPACITY).map(QueuedJob::new)
    }
    /// Adds a job to the bytes to send, and starts a worker if none runs.
    fn encode(&mut self, mut entry: QueuedJob<W::Job>) {
        let life = self.program.as_ref().map(|_| self.life);
        let Some(job) = self.wire.settle_unsent(entry.job, life) else { return };
        if let Err(error) = self.ensure_started() {
            for waiting in self.queue.take_all(self.number) {
                self.wire.fail(waiting, WorkerFailure::Start(error.clone()));
            }
            return self.wire.fail(job, WorkerFailure::Start(error));
        }
        let number = self.next + 1;
        let Some(job) = self.wire.encode(job, number, self.life) else { return };
        entry.job = job;
        self.next = number;
        if self.open.is_empty() {
            self.last_progress = self.clock.monotonic();
        }
        self.open.insert(number, entry);
    }
    fn wait(&mut self) {
        let remaining = self.limit.saturating_sub(self.clock.monotonic().saturating_sub(self.last_progress));
        match &mut self.program {
            Some(program) if self.has_more => program.wait(&self.wake, Some(Duration::ZERO)),
            Some(program) => program.wait(&self.wake, (!self.open.is_empty()).then_some(remaining)),
            None => wait_for_wake(&self.wake),
        }
        let mut chunk = [0; 256];
        while matches!(self.wake.read(&mut chunk), Ok(count) if count == chunk.len()) {}
    }
    /// Resolves the jobs whose responses have arrived. A worker is lost if it ended, responded without a request, or
    /// exceeded the time limit.
    fn receive(&mut self) {
        self.has_more = true;
        for _ in 0..MAX_FRAMES {
            let Some(program) = &mut self.program else { break };
            match program.frame() {
                Ok(None) => {
                    self.has_more = false;
                    break;
                }
                Ok(Some(frame)) => {
                    if let Err(reason) = self.handle_frame(&frame) {
                        return self.handle_loss(&reason, false);
                    }
                }
                Err(reason) => return self.handle_loss(&reason, false),
            }
        }
        let waited = self.clock.monotonic().saturating_sub(self.last_progress);
        if !self.open.is_empty() && waited >= self.limit {
            let limit = format_duration(self.limit);
            self.handle_loss(&format!("took longer than {limit} for one request and was killed"), true);
        }
    }
    fn handle_frame(&mut self, frame: &[u8]) -> Result<(), String> {
        let decoded = self.wire.decode(frame)?;
        if let Some(program) = self.program.as_mut().filter(|_| !decoded.reply.is_empty()) {
            program.send(&decoded.reply);
        }
        for (number, response) in decoded.responses {
            let entry = self.open.remove(&number);
            let entry = entry.ok_or_else(|| format!("answered request {number}, which is not open"))?;
            self.last_progress = self.clock.monotonic();
            self.settle(entry, response);
        }
        Ok(())
    }
    fn settle(&mut self, mut entry: QueuedJob<W::Job>, response: W::Response) {
        let Some(job) = self.wire.settle(entry.job, response, self.life) else { return };
        entry.job = job;
        if !entry.suspect {
            entry.suspect = true;
            self.retries.push_back(entry);
            return;
        }
        // This worker cannot process a job that was alone.
        self.stop();
        let error = self.loss_error("did not process a request", "");
        self.retry_or_fail(entry, WorkerExitCause::Foreign, true, error);
    }
    /// Ends the lost worker. Its open jobs are sent again or fail.
    fn handle_loss(&mut self, reason: &str, late: bool) {
        self.has_more = false;
        let Some(mut program) = self.program.take() else { return };
        let status = program.status();
        let output = program.kill_for_stderr();
        self.queue.set_worker(self.number, None);
        (self.supervised.log)(LogLevel::Warn, &format!("{}: the program {reason}", self.supervised.place));
        let cause = match status {
            _ if late => WorkerExitCause::Late,
            Some(status) if self.wire.is_own_death(status) => WorkerExitCause::Own,
            _ => WorkerExitCause::Foreign,
        };
        let open = std::mem::take(&mut self.open);
        let alone = open.len() == 1;
        for (at, entry) in open.into_values().enumerate() {
            let error = self.loss_error(reason, &output);
            if self.wire.is_bound(&entry.job) {
                // A worker processes jobs in order, so only the first job can have exceeded the time limit.
                self.wire.fail(entry.job, WorkerFailure::State { error, late: late && at == 0 });
                continue;
            }
            let counts = alone && (entry.suspect || !W::CAPACITY.in_batches);
            self.retry_or_fail(entry, cause, counts, error);
        }
    }
    /// Queues a job to be sent again alone, or fails it if it is at fault.
    fn retry_or_fail(&mut self, mut entry: QueuedJob<W::Job>, cause: WorkerExitCause, alone: bool, error: Error) {
        let was_alone = entry.suspect;
        if entry.is_at_fault(cause, alone) {
            self.wire.fail(entry.job, WorkerFailure::Deaths { error, cause });
        } else if was_alone {
            self.retries.push_front(entry);
        } else {
            self.retries.push_back(entry);
        }
    }
    fn stop(&mut self) {
        self.program = None;
        self.has_more = false;
        self.queue.set_worker(self.number, None);
    }
    fn loss_error(&self, reason: &str, output: &str) -> Error {
        let error = Error::retryable(format!("the program {reason}")).at(&self.supervised.place);
        with_output(error.help("fix the program, then run the same command again"), output)
    }
    fn ensure_started(&mut self) -> Result<()> {
        if self.program.is_some() {
            return Ok(());
        }
        let mut program = self.wire.start()?;
        program.send(&self.wire.greeting());
        let (limit, begin) = (self.supervised.start, self.clock.monotonic());
        while !self.wire.is_ready() {
            let place = &self.supervised.place;
            if self.queue.is_shut_down() {
                return Err(Error::cancelled("the stage has ended").at(place));
            }
            if self.clock.monotonic().saturating_sub(begin) > limit {
                let error = Error::retryable(format!("the program was not ready within {}", format_duration(limit)));
                let error = error.help(self.supervised.start_help);
                return Err(with_output(error.at(place), &program.kill_for_stderr()));
            }
            let frame = match program.frame() {
                Err(reason) => return Err(self.start_error(program, &format!("it {reason}"))),
                Ok(None) => {
                    program.wait(&self.wake, Some(SHUTDOWN_POLL_INTERVAL));
                    continue;
                }
                Ok(Some(frame)) => frame,
            };
            match self.wire.decode(&frame) {
                Err(reason) => return Err(self.start_error(program, &reason)),
                Ok(decoded) if !decoded.responses.is_empty() => {
                    return Err(self.start_error(program, "it sent a response before any request"));
                }
                Ok(decoded) => program.send(&decoded.reply),
            }
        }
        self.life += 1;
        self.queue.set_worker(self.number, Some(program.id()));
        self.program = Some(program);
        Ok(())
    }
    fn start_error(&self, program: ChildProgram, reason: &str) -> Error {
        let error = Error::invalid(format!("the program does not start: {reason}")).at(&self.supervised.place);
        with_output(error.help(self.supervised.help), &program.kill_for_stderr())
    }
}

/// Adds the last output of a program to an error.
fn with_output(error: Error, output: &str) -> Error {
    if output.is_empty() {
        return error;
    }
    error.caused_by(&Error::data(format!("last lines of its output:\n{output}")))
}
