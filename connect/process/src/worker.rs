//! The thread that owns one process: it sends requests, returns responses, and identifies the request that kills a
//! program.
//!
//! When a process dies or hangs, all its open requests are lost, so each of them is sent again alone. One that kills
//! [`MAX_DEATHS`] processes *alone*, or makes one hang, fails. Requests that depend on the state of the dead process are
//! never sent again: the caller must rebuild that state.

use crate::fault::ProgramFault;
use crate::folder::ProgramFolder;
use crate::output::ProgramLog;
use crate::program::{ProgramProcess, wait_for_wake};
use crate::protocol::{ProgramProtocol, ProtocolEvent, ProtocolSession};
use crate::queue::{ProgramQueue, QueuedRequest};
use crate::response::ProgramResponse;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::io::{PipeReader, Read as _};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::LogLevel;
use trainyard_core::units::format_duration;
use trainyard_core::{Clock as _, Error, Result, SystemClock};

/// Maximum processes that may die during one request.
const MAX_DEATHS: u32 = 3;
/// Timeout of a start, unless requests may take longer: imports of large libraries are slow.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum lines of a process that are read in one iteration.
const MAX_LINES_READ: usize = 4096;
/// Interval at which a start checks for shutdown.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Settings that all lanes of a program share.
pub struct ProgramSettings {
    /// Name of the program in messages: ``reward `process` (python3 my.py)``.
    pub place: String,
    pub folder: ProgramFolder,
    pub protocol: Arc<dyn ProgramProtocol>,
    pub timeout: Duration,
    pub variables: Vec<String>,
    pub log: ProgramLog,
}

pub struct ProgramWorker {
    pub number: usize,
    pub queue: Arc<ProgramQueue>,
    pub setting: Arc<ProgramSettings>,
    pub wake: PipeReader,
    clock: SystemClock,
    running: Option<ActiveProgram>,
    /// Number of the process, from 1.
    generation: u64,
    next: u64,
    open: BTreeMap<u64, QueuedRequest>,
    /// Requests to send again alone.
    retries: VecDeque<QueuedRequest>,
    /// Time of the last response, or at which the first of the open requests was sent.
    last_progress: Duration,
    /// Whether the process has written more lines than were read.
    has_more_lines: bool,
}

struct ActiveProgram {
    program: ProgramProcess,
    session: Box<dyn ProtocolSession>,
    ready: Value,
}

impl ProgramWorker {
    pub fn new(number: usize, queue: Arc<ProgramQueue>, setting: Arc<ProgramSettings>, wake: PipeReader) -> Self {
        let (clock, open, again) = (SystemClock::new(), BTreeMap::new(), VecDeque::new());
        Self {
            number,
            queue,
            setting,
            wake,
            clock,
            running: None,
            generation: 0,
            next: 0,
            open,
            retries: again,
            last_progress: Duration::ZERO,
            has_more_lines: false,
        }
    }
    /// Works until the queue is shut down.
    pub fn run(mut self) {
        while !self.queue.is_shut() {
            self.admit();
            self.wait();
            self.receive();
        }
        if let Some(running) = self.running.take() {
            running.program.close();
        }
    }
    /// Sends the requests that are permitted now.
    fn admit(&mut self) {
        while let Some(job) = self.take() {
            if job.generation.is_some_and(|life| self.running.is_none() || life != self.generation) {
                job.fail(ProgramFault::lost(&self.setting.place));
                continue;
            }
            if let Err(error) = self.ensure_started() {
                self.queue.fail_all(self.number, &error);
                job.fail(ProgramFault::Outage(error));
                continue;
            }
            let Some(running) = &mut self.running else { continue };
            let Some(request) = &job.request else {
                job.responder
                    .respond(Ok(ProgramResponse { value: running.ready.clone(), generation: self.generation }));
                continue;
            };
            self.next += 1;
            running.program.send(&request.line(self.next));
            if self.open.is_empty() {
                self.last_progress = self.clock.monotonic();
            }
            self.open.insert(self.next, job);
        }
    }
    fn take(&mut self) -> Option<QueuedRequest> {
        if !self.retries.is_empty() {
            return if self.open.is_empty() { self.retries.pop_front() } else { None };
        }
        // A request that is sent again stays alone.
        if self.open.values().any(|job| job.suspect) {
            return None;
        }
        self.queue.take(self.number, self.open.len())
    }
    fn wait(&mut self) {
        let left = self.setting.timeout.saturating_sub(self.clock.monotonic().saturating_sub(self.last_progress));
        match &mut self.running {
            Some(running) if self.has_more_lines => running.program.wait(&self.wake, Some(Duration::ZERO)),
            Some(running) => running.program.wait(&self.wake, (!self.open.is_empty()).then_some(left)),
            None => wait_for_wake(&self.wake),
        }
        let mut woken = [0; 256];
        while matches!(self.wake.read(&mut woken), Ok(count) if count == woken.len()) {}
    }
    /// Returns the responses that have arrived. A process that ended, responds without a request, or is late is
    /// discarded.
    fn receive(&mut self) {
        self.has_more_lines = true;
        for _ in 0..MAX_LINES_READ {
            let Some(running) = &mut self.running else { break };
            match running.program.line() {
                Ok(None) => {
                    self.has_more_lines = false;
                    break;
                }
                Ok(Some(line)) => {
                    if let Err(what) = self.handle_line(&line) {
                        return self.handle_loss(&what, false);
                    }
                }
                Err(what) => return self.handle_loss(&what, false),
            }
        }
        let waited = self.clock.monotonic().saturating_sub(self.last_progress);
        if !self.open.is_empty() && waited >= self.setting.timeout {
            let limit = format_duration(self.setting.timeout);
            self.handle_loss(&format!("took longer than {limit} for one request and was killed"), true);
        }
    }
    fn handle_line(&mut self, line: &[u8]) -> Result<(), String> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let (id, result) = match running.session.parse_line(line)? {
            ProtocolEvent::Response(id, result) => (id, result),
            ProtocolEvent::Ready(_) => return Err("said twice that it is ready".to_string()),
            ProtocolEvent::Send(lines) => {
                running.program.send(&lines);
                return Ok(());
            }
            ProtocolEvent::Log(text) => {
                (self.setting.log)(LogLevel::Info, &text);
                return Ok(());
            }
            ProtocolEvent::Ignored => return Ok(()),
        };
        let job = self.open.remove(&id).ok_or_else(|| format!("answered request {id}, which is not open"))?;
        self.last_progress = self.clock.monotonic();
        job.responder.respond(
            result.map(|value| ProgramResponse { value, generation: self.generation }).map_err(ProgramFault::Exception),
        );
        Ok(())
    }
    /// Handles the loss of the process; its open requests are sent again or fail.
    fn handle_loss(&mut self, what: &str, late: bool) {
        self.has_more_lines = false;
        let words = self.running.take().map(|running| running.program.kill_for_stderr()).unwrap_or_default();
        (self.setting.log)(LogLevel::Warn, &format!("{}: the program {what}", self.setting.place));
        let open = std::mem::take(&mut self.open);
        let alone = open.len() == 1;
        for (at, mut job) in open.into_values().enumerate() {
            if job.generation.is_some() {
                // Requests are processed in their order, so the first is the late one.
                let fault = if late && at == 0 { ProgramFault::TimedOut } else { ProgramFault::Lost };
                job.fail(fault(self.loss_error(what, &words)));
                continue;
            }
            job.suspect = true;
            job.deaths += u32::from(alone);
            if alone && (late || job.deaths == MAX_DEATHS) {
                job.fail(ProgramFault::Outage(self.loss_error(what, &words)));
            } else {
                self.retries.push_back(job);
            }
        }
    }
    fn loss_error(&self, what: &str, words: &str) -> Error {
        let error = Error::retryable(format!("the program {what}")).at(&self.setting.place);
        with_stderr(error.help("run the same command again once the program holds"), words)
    }
    fn ensure_started(&mut self) -> Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let ProgramSettings { place, folder, protocol: language, timeout, variables, log } = &*self.setting;
        let started =
            ProgramProcess::start(&folder.command, folder.path(), variables, log.clone()).map_err(|e| e.at(place));
        let mut program = started?;
        let mut conversation = language.start_session();
        program.send(&conversation.opening());
        let (limit, begin) = (START_TIMEOUT.max(*timeout), self.clock.monotonic());
        let refused = |program: ProgramProcess, what: String| {
            let error = Error::invalid(format!("the program does not start: {what}")).at(place);
            with_stderr(error.help(language.help()), &program.kill_for_stderr())
        };
        loop {
            if self.queue.is_shut() {
                return Err(Error::cancelled("the stage is over").at(place));
            }
            if self.clock.monotonic().saturating_sub(begin) > limit {
                let error = Error::retryable(format!("the program was not ready within {}", format_duration(limit)));
                return Err(with_stderr(error.at(place), &program.kill_for_stderr()));
            }
            let line = match program.line() {
                Err(what) => return Err(refused(program, format!("it {what}"))),
                Ok(None) => {
                    program.wait(&self.wake, Some(POLL_INTERVAL));
                    continue;
                }
                Ok(Some(line)) => line,
            };
            match conversation.parse_line(&line) {
                Err(what) => return Err(refused(program, what)),
                Ok(ProtocolEvent::Ready(ready)) => {
                    self.generation += 1;
                    self.running = Some(ActiveProgram { program, session: conversation, ready });
                    return Ok(());
                }
                Ok(ProtocolEvent::Response(..)) => {
                    return Err(refused(program, "it answers before it is asked".to_string()));
                }
                Ok(ProtocolEvent::Send(lines)) => program.send(&lines),
                Ok(ProtocolEvent::Log(text)) => log(LogLevel::Info, &text),
                Ok(ProtocolEvent::Ignored) => {}
            }
        }
    }
}

/// Adds the last output of a program to an error.
fn with_stderr(error: Error, words: &str) -> Error {
    if words.is_empty() {
        return error;
    }
    error.caused_by(&Error::data(format!("its last words:\n{words}")))
}
