//! The wire of tool workers: batches of jobs in, replies in call order out.
//!
//! A call that kills a fresh process *alone* is at fault and gets a tool error; this depends only on the call and its
//! session. Deaths with external causes are repaired silently: sessions are rebuilt exactly from their recipes, and no
//! agent is affected by another's crash.

use super::key::PoolKey;
use super::process;
use super::records::Records;
use crate::tools::ToolResult;
use crate::tools::cpython::setup::Setup;
use crate::tools::ticket::Responder;
use crate::tools::wire::{self, Answered, Job, Past, Recipe, Reply};
use crate::tools::worker_program::WorkerProgram;
use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use trainyard_process::{Capacity, Death, Decoded, Failure, Program, Wire};

/// Calls per batch: enough to hide a round trip, few enough that losing a worker costs little.
const MAX_BATCH: usize = 256;
/// Time after a call's limit at which its worker is killed.
const GRACE: Duration = Duration::from_secs(1);
/// Grace period where the worker only supervises and ends late calls itself.
const SUPERVISED_GRACE: Duration = Duration::from_secs(10);
/// Time for a worker to start the process of a session, in addition to the worker's own limit.
const SUPERVISED_START: Duration = Duration::from_secs(40);

/// An entry of the queue.
pub enum Work {
    Call(Call),
    Close(u64),
}

pub struct Call {
    pub session: u64,
    pub code: Arc<str>,
    pub answer: Responder,
}

/// Protocol of the workers of one lane.
pub struct Worker {
    records: Arc<Records>,
    program: WorkerProgram,
    key: PoolKey,
    /// Setup of the current process, if it supervises CPython.
    setup: Option<Setup>,
    /// Jobs to send with the next batch.
    jobs: Vec<Job>,
    /// Time to rebuild the sessions of the next batch.
    rebuilding: Duration,
    /// Numbers of the calls that were sent and not answered.
    sent: VecDeque<u64>,
}

impl Worker {
    pub fn new(records: Arc<Records>, program: WorkerProgram, key: PoolKey) -> Self {
        let (jobs, sent) = (Vec::new(), VecDeque::new());
        Self { records, program, key, setup: None, jobs, rebuilding: Duration::ZERO, sent }
    }
    /// Returns the recipe of a session that the current process does not hold. Marks it as held from now on.
    fn missing_session(&self, session: u64, life: u64) -> Option<(Recipe, Duration)> {
        let opened = self.records.with(session, |record| {
            let held = std::mem::replace(&mut record.held_by, life) == life;
            (!held).then(|| (record.recipe.clone(), record.cost))
        });
        opened.flatten()
    }
    /// Returns the times after a call's limit and for the start of a session.
    fn allowances(&self) -> (Duration, Duration) {
        match self.key.cpython {
            Some(_) => (SUPERVISED_GRACE, SUPERVISED_START),
            None => (GRACE, GRACE),
        }
    }
    /// Returns the time limit of a call without sessions to rebuild.
    pub fn timeout(&self) -> Duration {
        self.key.limits.time() + self.allowances().0
    }
    /// Updates a session's record by the reply to a call.
    fn record(&self, call: &Call, reply: &mut Reply) {
        let snapshot = reply.snapshot.take();
        self.records.with(call.session, |record| match reply.answered {
            Answered::Fine | Answered::Failed => {
                if let Some(snapshot) = snapshot {
                    record.recipe = Recipe { snapshot: Some(Arc::from(snapshot)), history: Vec::new() };
                    record.cost = Duration::ZERO;
                } else {
                    record.recipe.history.push(Past { code: Arc::clone(&call.code), seen: wire::digest(&reply.text) });
                    record.cost += Duration::from_nanos(reply.cost);
                }
            }
            Answered::TimedOut | Answered::Panicked | Answered::Missing | Answered::Broken => record.held_by = 0,
        });
    }
    fn failed(&self, failure: Failure) -> ToolResult {
        match failure {
            Failure::Start(error) => ToolResult::infrastructure(format!("error: {error}")),
            Failure::Shut => ToolResult::infrastructure("error: the tool is shutting down"),
            Failure::Deaths { cause: Death::Late, .. } => ToolResult::timed_out(format!(
                "TimeoutError: the call ran longer than {} ms",
                self.key.limits.time_millis
            )),
            Failure::Deaths { cause: Death::Own, .. } => {
                ToolResult::error("MemoryError: the program needs more memory than there is")
            }
            Failure::Deaths { cause: Death::Foreign, .. } | Failure::State { .. } => {
                ToolResult::infrastructure("error: the tool was lost")
            }
        }
    }
}

impl Wire for Worker {
    type Job = Work;
    type Response = Reply;
    const CAPACITY: Capacity = Capacity { common: 0, own: MAX_BATCH, in_batches: true };

    fn start(&mut self) -> trainyard_core::Result<Program> {
        let (program, setup) = process::start(&self.program, &self.key)?;
        self.setup = setup;
        Ok(program)
    }
    fn greeting(&mut self) -> Vec<u8> {
        self.jobs.clear();
        self.rebuilding = Duration::ZERO;
        self.sent.clear();
        frame(&wire::encode_hello(&self.key.limits, self.setup.as_ref()))
    }
    fn settle_unsent(&mut self, job: Work, life: Option<u64>) -> Option<Work> {
        let Work::Close(session) = job else { return Some(job) };
        let held_by = self.records.forget(session).map(|record| record.held_by);
        (life.is_some() && held_by == life).then_some(Work::Close(session))
    }
    fn encode(&mut self, job: Work, number: u64, life: u64) -> Option<Work> {
        let call = match job {
            Work::Call(call) => call,
            Work::Close(session) => {
                self.jobs.push(Job::Close { session });
                return None;
            }
        };
        if let Some((recipe, cost)) = self.missing_session(call.session, life) {
            self.rebuilding += cost * 4 + self.allowances().1;
            self.jobs.push(Job::Open { session: call.session, recipe });
        }
        self.jobs.push(Job::Call { session: call.session, code: Arc::clone(&call.code) });
        self.sent.push_back(number);
        Some(Work::Call(call))
    }
    fn take_bytes(&mut self) -> Option<(Vec<u8>, Duration)> {
        if self.jobs.is_empty() {
            return None;
        }
        let limit = self.timeout() + std::mem::take(&mut self.rebuilding);
        Some((frame(&wire::encode_jobs(&std::mem::take(&mut self.jobs))), limit))
    }
    fn decode(&mut self, frame: &[u8]) -> Result<Decoded<Reply>, String> {
        let replies = wire::decode_replies(frame).ok_or("wrote a frame that is no list of replies")?;
        // Replies without a call are dropped.
        let count = replies.len().min(self.sent.len());
        Ok(Decoded { responses: self.sent.drain(..count).zip(replies).collect(), reply: Vec::new() })
    }
    fn settle(&mut self, job: Work, mut reply: Reply, _life: u64) -> Option<Work> {
        let Work::Call(call) = job else { return None };
        self.record(&call, &mut reply);
        let Reply { answered, text, .. } = reply;
        let result = match answered {
            Answered::Missing => return Some(Work::Call(call)),
            Answered::Fine => ToolResult::ok(text),
            Answered::Failed | Answered::Panicked => ToolResult::error(text),
            Answered::TimedOut => ToolResult::timed_out(text),
            Answered::Broken => ToolResult::infrastructure(text),
        };
        call.answer.give(result);
        None
    }
    fn fail(&mut self, job: Work, failure: Failure) {
        match job {
            Work::Call(call) => call.answer.give(self.failed(failure)),
            Work::Close(session) => drop(self.records.forget(session)),
        }
    }
    /// A supervisor runs no programs itself.
    fn is_own_death(&self, status: ExitStatus) -> bool {
        self.key.cpython.is_none() && process::died_of_its_program(status)
    }
}

/// Returns a frame. One that is too large is not sent, and its calls are late.
fn frame(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.len() + 4);
    match wire::write_frame(&mut bytes, payload) {
        Ok(()) => bytes,
        Err(_) => Vec::new(),
    }
}
