//! The thread that owns one worker process at a time: it sends jobs, passes responses on, and starts a new worker when
//! one dies or hangs.
//!
//! The open jobs of a lost worker are sent again alone ([`Entry`]). Jobs that require the state of the lost worker are
//! never sent again: the requester must rebuild that state.

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

/// Timeout of a start, unless responses may take longer: imports of large libraries are slow.
const START: Duration = Duration::from_secs(120);
/// Maximum frames of a worker that are read in one iteration.
const FRAMES: usize = 4096;
/// Interval at which a start checks for shutdown.
const LOOK: Duration = Duration::from_millis(200);

/// The workers of a supervisor in messages.
pub struct SupervisedProgram {
    /// Name of the program: ``reward `process` (python3 my.py)``.
    pub place: String,
    /// Advice when the program does not start.
    pub help: &'static str,
    /// Time limit of a response.
    pub timeout: Duration,
    pub log: ProgramLog,
}

pub struct WorkerLane<W: WorkerWire> {
    number: usize,
    queue: Arc<JobQueue<W::Job>>,
    described: Arc<SupervisedProgram>,
    wire: W,
    wake: PipeReader,
    clock: SystemClock,
    program: Option<ChildProgram>,
    /// Number of the worker, from 1.
    life: u64,
    /// Number of the last job that was sent.
    next: u64,
    open: BTreeMap<u64, QueuedJob<W::Job>>,
    /// Jobs to send again alone.
    again: VecDeque<QueuedJob<W::Job>>,
    /// Time limit of the next response.
    limit: Duration,
    /// Time of the last response, or at which the first of the open jobs was sent.
    moved: Duration,
    /// Whether the worker has written more frames than were read.
    more: bool,
}

impl<W: WorkerWire> WorkerLane<W> {
    pub fn new(
        number: usize,
        queue: Arc<JobQueue<W::Job>>,
        described: Arc<SupervisedProgram>,
        wire: W,
        wake: PipeReader,
    ) -> Self {
        let (clock, open, again) = (SystemClock::new(), BTreeMap::new(), VecDeque::new());
        Self {
            number,
            queue,
            limit: described.timeout,
            described,
            wire,
            wake,
            clock,
            program: None,
            life: 0,
            next: 0,
            open,
            again,
            moved: Duration::ZERO,
            more: false,
        }
    }
    /// Works until the queue is shut down.
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
        let entries = std::mem::take(&mut self.open).into_values().chain(std::mem::take(&mut self.again));
        let waiting = self.queue.take_own(self.number);
        for job in entries.map(|entry| entry.job).chain(waiting) {
            self.wire.fail(job, WorkerFailure::Shut);
        }
    }
    /// Sends the jobs that are permitted now.
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
        if !self.again.is_empty() {
            return if self.open.is_empty() { self.again.pop_front() } else { None };
        }
        // A job that is sent again stays alone.
        if self.open.values().any(|entry| entry.suspect) {
            return None;
        }
        self.queue.take(self.number, self.open.len(), W::CAPACITY).map(QueuedJob::new)
    }
    /// Adds a job to the bytes to send, starting a worker if necessary.
    fn encode(&mut self, mut entry: QueuedJob<W::Job>) {
        let life = self.program.as_ref().map(|_| self.life);
        let Some(job) = self.wire.settle_unsent(entry.job, life) else { return };
        if let Err(error) = self.ensure() {
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
            self.moved = self.clock.monotonic();
        }
        self.open.insert(number, entry);
    }
    fn wait(&mut self) {
        let left = self.limit.saturating_sub(self.clock.monotonic().saturating_sub(self.moved));
        match &mut self.program {
            Some(program) if self.more => program.wait(&self.wake, Some(Duration::ZERO)),
            Some(program) => program.wait(&self.wake, (!self.open.is_empty()).then_some(left)),
            None => wait_for_wake(&self.wake),
        }
        let mut woken = [0; 256];
        while matches!(self.wake.read(&mut woken), Ok(count) if count == woken.len()) {}
    }
    /// Passes on the responses that have arrived. A worker that ended, responds without a request, or is late is lost.
    fn receive(&mut self) {
        self.more = true;
        for _ in 0..FRAMES {
            let Some(program) = &mut self.program else { break };
            match program.frame() {
                Ok(None) => {
                    self.more = false;
                    break;
                }
                Ok(Some(frame)) => {
                    if let Err(what) = self.take_in(&frame) {
                        return self.lost(&what, false);
                    }
                }
                Err(what) => return self.lost(&what, false),
            }
        }
        let waited = self.clock.monotonic().saturating_sub(self.moved);
        if !self.open.is_empty() && waited >= self.limit {
            let limit = format_duration(self.limit);
            self.lost(&format!("took longer than {limit} for one request and was killed"), true);
        }
    }
    fn take_in(&mut self, frame: &[u8]) -> Result<(), String> {
        let decoded = self.wire.decode(frame)?;
        if let Some(program) = self.program.as_mut().filter(|_| !decoded.reply.is_empty()) {
            program.send(&decoded.reply);
        }
        for (number, response) in decoded.responses {
            let entry = self.open.remove(&number);
            let entry = entry.ok_or_else(|| format!("answered request {number}, which is not open"))?;
            self.moved = self.clock.monotonic();
            self.settle(entry, response);
        }
        Ok(())
    }
    fn settle(&mut self, mut entry: QueuedJob<W::Job>, response: W::Response) {
        let Some(job) = self.wire.settle(entry.job, response, self.life) else { return };
        entry.job = job;
        if !entry.suspect {
            entry.suspect = true;
            self.again.push_back(entry);
            return;
        }
        // A job that was alone cannot be processed by this worker.
        self.stop();
        let error = self.gone("did not process a request", "");
        self.again_or_fail(entry, WorkerExitCause::Foreign, true, error);
    }
    /// Handles the loss of the worker; its open jobs are sent again or fail.
    fn lost(&mut self, what: &str, late: bool) {
        self.more = false;
        let Some(mut program) = self.program.take() else { return };
        let status = program.status();
        let words = program.kill_for_stderr();
        self.queue.set_worker(self.number, None);
        (self.described.log)(LogLevel::Warn, &format!("{}: the program {what}", self.described.place));
        let cause = match status {
            _ if late => WorkerExitCause::Late,
            Some(status) if self.wire.is_own_death(status) => WorkerExitCause::Own,
            _ => WorkerExitCause::Foreign,
        };
        let open = std::mem::take(&mut self.open);
        let alone = open.len() == 1;
        for (at, entry) in open.into_values().enumerate() {
            let error = self.gone(what, &words);
            if self.wire.is_bound(&entry.job) {
                // Jobs are processed in their order, so the first is the late one.
                self.wire.fail(entry.job, WorkerFailure::State { error, late: late && at == 0 });
                continue;
            }
            let counts = alone && (entry.suspect || !W::CAPACITY.in_batches);
            self.again_or_fail(entry, cause, counts, error);
        }
    }
    /// Queues a job to be sent again, before those after it, unless it is at fault.
    fn again_or_fail(&mut self, mut entry: QueuedJob<W::Job>, cause: WorkerExitCause, alone: bool, error: Error) {
        let was_alone = entry.suspect;
        if entry.is_at_fault(cause, alone) {
            self.wire.fail(entry.job, WorkerFailure::Deaths { error, cause });
        } else if was_alone {
            self.again.push_front(entry);
        } else {
            self.again.push_back(entry);
        }
    }
    fn stop(&mut self) {
        self.program = None;
        self.more = false;
        self.queue.set_worker(self.number, None);
    }
    fn gone(&self, what: &str, words: &str) -> Error {
        let error = Error::retryable(format!("the program {what}")).at(&self.described.place);
        said(error.help("run the same command again once the program holds"), words)
    }
    fn ensure(&mut self) -> Result<()> {
        if self.program.is_some() {
            return Ok(());
        }
        let mut program = self.wire.start()?;
        program.send(&self.wire.greeting());
        let (limit, begin) = (START.max(self.described.timeout), self.clock.monotonic());
        while !self.wire.is_ready() {
            let place = &self.described.place;
            if self.queue.is_shut_down() {
                return Err(Error::cancelled("the stage is over").at(place));
            }
            if self.clock.monotonic().saturating_sub(begin) > limit {
                let error = Error::retryable(format!("the program was not ready within {}", format_duration(limit)));
                return Err(said(error.at(place), &program.kill_for_stderr()));
            }
            let frame = match program.frame() {
                Err(what) => return Err(self.refused(program, &format!("it {what}"))),
                Ok(None) => {
                    program.wait(&self.wake, Some(LOOK));
                    continue;
                }
                Ok(Some(frame)) => frame,
            };
            match self.wire.decode(&frame) {
                Err(what) => return Err(self.refused(program, &what)),
                Ok(decoded) if !decoded.responses.is_empty() => {
                    return Err(self.refused(program, "it answers before it is asked"));
                }
                Ok(decoded) => program.send(&decoded.reply),
            }
        }
        self.life += 1;
        self.queue.set_worker(self.number, Some(program.id()));
        self.program = Some(program);
        Ok(())
    }
    fn refused(&self, program: ChildProgram, what: &str) -> Error {
        let error = Error::invalid(format!("the program does not start: {what}")).at(&self.described.place);
        said(error.help(self.described.help), &program.kill_for_stderr())
    }
}

/// Adds the last output of a program to an error.
fn said(error: Error, words: &str) -> Error {
    if words.is_empty() {
        return error;
    }
    error.caused_by(&Error::data(format!("its last words:\n{words}")))
}
