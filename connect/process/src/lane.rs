//! The thread that owns one process: it sends requests, returns responses, and identifies the request that kills a
//! program.
//!
//! When a process dies or hangs, all its open requests are lost, so each of them is sent again alone. One that kills
//! [`DEATHS`] processes *alone*, or makes one hang, fails. Requests that depend on the state of the dead process are
//! never sent again: the caller must rebuild that state.

use crate::fault::Fault;
use crate::folder::Folder;
use crate::language::{Conversation, Heard, Language};
use crate::program::{Program, wait_for};
use crate::queue::{Job, Queue};
use crate::ticket::Reply;
use crate::words::Log;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::io::{PipeReader, Read as _};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::LogLevel;
use trainyard_core::units::format_duration;
use trainyard_core::{Clock as _, Error, Result, SystemClock};

/// Maximum processes that may die during one request.
const DEATHS: u32 = 3;
/// Timeout of a start, unless requests may take longer: imports of large libraries are slow.
const START: Duration = Duration::from_secs(120);
/// Maximum lines of a process that are read in one iteration.
const LINES: usize = 4096;
/// Interval at which a start checks for shutdown.
const LOOK: Duration = Duration::from_millis(200);

/// Settings that all lanes of a program share.
pub struct Setting {
    /// Name of the program in messages: ``reward `process` (python3 my.py)``.
    pub place: String,
    pub folder: Folder,
    pub language: Arc<dyn Language>,
    pub timeout: Duration,
    pub variables: Vec<String>,
    pub log: Log,
}

pub struct Lane {
    pub number: usize,
    pub queue: Arc<Queue>,
    pub setting: Arc<Setting>,
    pub wake: PipeReader,
    clock: SystemClock,
    running: Option<Running>,
    /// Number of the process, from 1.
    life: u64,
    next: u64,
    open: BTreeMap<u64, Job>,
    /// Requests to send again alone.
    again: VecDeque<Job>,
    /// Time of the last response, or at which the first of the open requests was sent.
    moved: Duration,
    /// Whether the process has written more lines than were read.
    more: bool,
}

struct Running {
    program: Program,
    conversation: Box<dyn Conversation>,
    ready: Value,
}

impl Lane {
    pub fn new(number: usize, queue: Arc<Queue>, setting: Arc<Setting>, wake: PipeReader) -> Self {
        let (clock, open, again) = (SystemClock::new(), BTreeMap::new(), VecDeque::new());
        Self {
            number,
            queue,
            setting,
            wake,
            clock,
            running: None,
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
            if job.life.is_some_and(|life| self.running.is_none() || life != self.life) {
                job.fail(Fault::lost(&self.setting.place));
                continue;
            }
            if let Err(error) = self.ensure() {
                self.queue.fail_all(self.number, &error);
                job.fail(Fault::Outage(error));
                continue;
            }
            let Some(running) = &mut self.running else { continue };
            let Some(request) = &job.request else {
                job.responder.give(Ok(Reply { value: running.ready.clone(), life: self.life }));
                continue;
            };
            self.next += 1;
            running.program.send(&request.line(self.next));
            if self.open.is_empty() {
                self.moved = self.clock.monotonic();
            }
            self.open.insert(self.next, job);
        }
    }
    fn take(&mut self) -> Option<Job> {
        if !self.again.is_empty() {
            return if self.open.is_empty() { self.again.pop_front() } else { None };
        }
        // A request that is sent again stays alone.
        if self.open.values().any(|job| job.suspect) {
            return None;
        }
        self.queue.take(self.number, self.open.len())
    }
    fn wait(&mut self) {
        let left = self.setting.timeout.saturating_sub(self.clock.monotonic().saturating_sub(self.moved));
        match &mut self.running {
            Some(running) if self.more => running.program.wait(&self.wake, Some(Duration::ZERO)),
            Some(running) => running.program.wait(&self.wake, (!self.open.is_empty()).then_some(left)),
            None => wait_for(&self.wake),
        }
        let mut woken = [0; 256];
        while matches!(self.wake.read(&mut woken), Ok(count) if count == woken.len()) {}
    }
    /// Returns the responses that have arrived. A process that ended, responds without a request, or is late is
    /// discarded.
    fn receive(&mut self) {
        self.more = true;
        for _ in 0..LINES {
            let Some(running) = &mut self.running else { break };
            match running.program.line() {
                Ok(None) => {
                    self.more = false;
                    break;
                }
                Ok(Some(line)) => {
                    if let Err(what) = self.take_in(&line) {
                        return self.lost(&what, false);
                    }
                }
                Err(what) => return self.lost(&what, false),
            }
        }
        let waited = self.clock.monotonic().saturating_sub(self.moved);
        if !self.open.is_empty() && waited >= self.setting.timeout {
            let limit = format_duration(self.setting.timeout);
            self.lost(&format!("took longer than {limit} for one request and was killed"), true);
        }
    }
    fn take_in(&mut self, line: &[u8]) -> Result<(), String> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let (id, result) = match running.conversation.hear(line)? {
            Heard::Answer(id, result) => (id, result),
            Heard::Ready(_) => return Err("said twice that it is ready".to_string()),
            Heard::Reply(lines) => {
                running.program.send(&lines);
                return Ok(());
            }
            Heard::Aside(text) => {
                (self.setting.log)(LogLevel::Info, &text);
                return Ok(());
            }
            Heard::Nothing => return Ok(()),
        };
        let job = self.open.remove(&id).ok_or_else(|| format!("answered request {id}, which is not open"))?;
        self.moved = self.clock.monotonic();
        job.responder.give(result.map(|value| Reply { value, life: self.life }).map_err(Fault::Raised));
        Ok(())
    }
    /// Handles the loss of the process; its open requests are sent again or fail.
    fn lost(&mut self, what: &str, late: bool) {
        self.more = false;
        let words = self.running.take().map(|running| running.program.last_words()).unwrap_or_default();
        (self.setting.log)(LogLevel::Warn, &format!("{}: the program {what}", self.setting.place));
        let open = std::mem::take(&mut self.open);
        let alone = open.len() == 1;
        for (at, mut job) in open.into_values().enumerate() {
            if job.life.is_some() {
                // Requests are processed in their order, so the first is the late one.
                let fault = if late && at == 0 { Fault::Late } else { Fault::Lost };
                job.fail(fault(self.gone(what, &words)));
                continue;
            }
            job.suspect = true;
            job.deaths += u32::from(alone);
            if alone && (late || job.deaths == DEATHS) {
                job.fail(Fault::Outage(self.gone(what, &words)));
            } else {
                self.again.push_back(job);
            }
        }
    }
    fn gone(&self, what: &str, words: &str) -> Error {
        let error = Error::retryable(format!("the program {what}")).at(&self.setting.place);
        said(error.help("run the same command again once the program holds"), words)
    }
    fn ensure(&mut self) -> Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let Setting { place, folder, language, timeout, variables, log } = &*self.setting;
        let started = Program::start(&folder.command, folder.path(), variables, log.clone()).map_err(|e| e.at(place));
        let mut program = started?;
        let mut conversation = language.begin();
        program.send(&conversation.opening());
        let (limit, begin) = (START.max(*timeout), self.clock.monotonic());
        let refused = |program: Program, what: String| {
            let error = Error::invalid(format!("the program does not start: {what}")).at(place);
            said(error.help(language.help()), &program.last_words())
        };
        loop {
            if self.queue.is_shut() {
                return Err(Error::cancelled("the stage is over").at(place));
            }
            if self.clock.monotonic().saturating_sub(begin) > limit {
                let error = Error::retryable(format!("the program was not ready within {}", format_duration(limit)));
                return Err(said(error.at(place), &program.last_words()));
            }
            let line = match program.line() {
                Err(what) => return Err(refused(program, format!("it {what}"))),
                Ok(None) => {
                    program.wait(&self.wake, Some(LOOK));
                    continue;
                }
                Ok(Some(line)) => line,
            };
            match conversation.hear(&line) {
                Err(what) => return Err(refused(program, what)),
                Ok(Heard::Ready(ready)) => {
                    self.life += 1;
                    self.running = Some(Running { program, conversation, ready });
                    return Ok(());
                }
                Ok(Heard::Answer(..)) => return Err(refused(program, "it answers before it is asked".to_string())),
                Ok(Heard::Reply(lines)) => program.send(&lines),
                Ok(Heard::Aside(text)) => log(LogLevel::Info, &text),
                Ok(Heard::Nothing) => {}
            }
        }
    }
}

/// Adds the last output of a program to an error.
fn said(error: Error, words: &str) -> Error {
    if words.is_empty() {
        return error;
    }
    error.caused_by(&Error::data(format!("its last words:\n{words}")))
}
