//! Implements the wire of tool workers: it sends batches of jobs and receives replies in call order.
//!
//! If a call kills a fresh process *alone*, the call is at fault and gets a tool error; this depends only on the call
//! and its session. Exits with external causes are repaired silently: sessions are rebuilt exactly from their recipes,
//! and a crash that one agent causes affects no other agent.

use super::key::{PoolKey, WorkerKind};
use super::process;
use super::records::{ToolSessionRecord, ToolSessionRecords};
use crate::tools::ToolResult;
use crate::tools::hello::{WorkerSetup, encode_hello};
use crate::tools::pending_result::ToolResponder;
use crate::tools::wire::{self, CallStatus, PastCall, SessionRecipe, ToolWorkerJob, ToolWorkerReply};
use crate::tools::worker_program::WorkerProgram;
use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use trainyard_process::{ChildProgram, DecodedFrame, LaneCapacity, WorkerExitCause, WorkerFailure, WorkerWire};

/// Maximum number of calls per batch: enough to hide a round trip, few enough that little work is lost with a worker.
const MAX_BATCH: usize = 256;
/// Time after a call's limit after which its worker is killed.
const GRACE: Duration = Duration::from_secs(1);
/// Grace period of a worker that only supervises, and ends late calls itself.
const SUPERVISED_GRACE: Duration = Duration::from_secs(10);
/// Time for a worker to start the process of a session, in addition to the worker's own limit.
const SUPERVISED_START: Duration = Duration::from_secs(40);

/// Entry of the queue.
pub enum ToolWork {
    Call(QueuedToolCall),
    Close(u64),
}

pub struct QueuedToolCall {
    pub session: u64,
    pub code: Arc<str>,
    pub responder: ToolResponder,
}

/// Protocol of the workers of one lane.
pub struct ToolWorkerWire {
    records: Arc<ToolSessionRecords>,
    program: WorkerProgram,
    key: PoolKey,
    /// Setup of the current process, if its kind has one.
    setup: Option<WorkerSetup>,
    /// Jobs to send with the next batch.
    jobs: Vec<ToolWorkerJob>,
    /// Time to rebuild the sessions of the next batch.
    rebuilding: Duration,
    /// Numbers of the calls that were sent and have no reply yet.
    sent: VecDeque<u64>,
}

impl ToolWorkerWire {
    pub fn new(records: Arc<ToolSessionRecords>, program: WorkerProgram, key: PoolKey) -> Self {
        let (jobs, sent) = (Vec::new(), VecDeque::new());
        Self { records, program, key, setup: None, jobs, rebuilding: Duration::ZERO, sent }
    }
    /// Returns the recipe and cost of a session that the process `generation` does not hold, and marks the session as
    /// held by it. Returns `None` if the process holds the session already or the session is closed.
    fn missing_session(&self, session: u64, generation: u64) -> Option<(SessionRecipe, Duration)> {
        let opened = self.records.with(session, |record| {
            let is_held = std::mem::replace(&mut record.held_by, generation) == generation;
            (!is_held).then(|| (record.recipe.clone(), record.cost))
        });
        opened.flatten()
    }
    /// Returns the grace period after a call's limit and the time for the start of a session.
    fn allowances(&self) -> (Duration, Duration) {
        match self.key.installation() {
            Some(_) => (SUPERVISED_GRACE, SUPERVISED_START),
            None => (GRACE, GRACE),
        }
    }
    /// Returns the time limit of a call without sessions to rebuild.
    pub fn timeout(&self) -> Duration {
        self.key.limits.time() + self.allowances().0
    }
    /// Updates a session's record by the reply to a call: extends or replaces the recipe after a completed call,
    /// empties that of a session that cannot be rebuilt, and otherwise marks the session as held by no process. Takes
    /// the snapshot out of the reply.
    fn record(&self, call: &QueuedToolCall, reply: &mut ToolWorkerReply) {
        let snapshot = reply.snapshot.take();
        let is_stateless = self.key.is_stateless();
        self.records.with(call.session, |record| match reply.status {
            CallStatus::Succeeded | CallStatus::Failed if is_stateless => {}
            CallStatus::Succeeded | CallStatus::Failed => {
                if let Some(snapshot) = snapshot {
                    record.recipe = SessionRecipe { snapshot: Some(Arc::from(snapshot)), history: Vec::new() };
                    record.cost = Duration::ZERO;
                } else {
                    record
                        .recipe
                        .history
                        .push(PastCall { code: Arc::clone(&call.code), result_digest: wire::digest(&reply.text) });
                    record.cost += Duration::from_nanos(reply.cost);
                }
            }
            // No program can restore the session, so later calls get a new one.
            CallStatus::Broken => *record = ToolSessionRecord::default(),
            CallStatus::TimedOut | CallStatus::Panicked | CallStatus::Missing => record.held_by = 0,
        });
    }
    fn failed(&self, failure: WorkerFailure) -> ToolResult {
        match failure {
            WorkerFailure::Start(error) => ToolResult::infrastructure(format!("error: {error}")),
            WorkerFailure::Shut => ToolResult::infrastructure("error: the tool is shutting down"),
            WorkerFailure::Deaths { cause: WorkerExitCause::Late, .. } => ToolResult::timed_out(format!(
                "TimeoutError: the call ran longer than {} ms",
                self.key.limits.time_millis
            )),
            WorkerFailure::Deaths { cause: WorkerExitCause::Own, .. } => {
                let subject = if matches!(self.key.kind, WorkerKind::Sql(_)) { "query" } else { "program" };
                ToolResult::error(format!("MemoryError: the {subject} needs more memory than there is"))
            }
            WorkerFailure::Deaths { cause: WorkerExitCause::Foreign, .. } | WorkerFailure::State { .. } => {
                ToolResult::infrastructure("error: the tool was lost")
            }
        }
    }
}

impl WorkerWire for ToolWorkerWire {
    type Job = ToolWork;
    type Response = ToolWorkerReply;
    const CAPACITY: LaneCapacity = LaneCapacity { common: 0, own: MAX_BATCH, in_batches: true };

    fn start(&mut self) -> trainyard_core::Result<ChildProgram> {
        let (program, setup) = process::start(&self.program, &self.key)?;
        self.setup = setup;
        Ok(program)
    }
    fn greeting(&mut self) -> Vec<u8> {
        self.jobs.clear();
        self.rebuilding = Duration::ZERO;
        self.sent.clear();
        frame(&encode_hello(&self.key.limits, self.setup.as_ref()))
    }
    fn settle_unsent(&mut self, job: ToolWork, generation: Option<u64>) -> Option<ToolWork> {
        let ToolWork::Close(session) = job else { return Some(job) };
        let held_by = self.records.forget(session).map(|record| record.held_by);
        (generation.is_some() && held_by == generation).then_some(ToolWork::Close(session))
    }
    fn encode(&mut self, job: ToolWork, number: u64, generation: u64) -> Option<ToolWork> {
        let call = match job {
            ToolWork::Call(call) => call,
            ToolWork::Close(session) => {
                self.jobs.push(ToolWorkerJob::Close { session });
                return None;
            }
        };
        if let Some((recipe, cost)) = self.missing_session(call.session, generation) {
            self.rebuilding += cost * 4 + self.allowances().1;
            self.jobs.push(ToolWorkerJob::Open { session: call.session, recipe });
        }
        self.jobs.push(ToolWorkerJob::Call { session: call.session, code: Arc::clone(&call.code) });
        self.sent.push_back(number);
        Some(ToolWork::Call(call))
    }
    fn take_bytes(&mut self) -> Option<(Vec<u8>, Duration)> {
        if self.jobs.is_empty() {
            return None;
        }
        let limit = self.timeout() + std::mem::take(&mut self.rebuilding);
        Some((frame(&wire::encode_jobs(&std::mem::take(&mut self.jobs))), limit))
    }
    fn decode(&mut self, frame: &[u8]) -> Result<DecodedFrame<ToolWorkerReply>, String> {
        let replies = wire::decode_replies(frame).ok_or("wrote a frame that is not a list of replies")?;
        // Replies without a call are dropped.
        let count = replies.len().min(self.sent.len());
        Ok(DecodedFrame { responses: self.sent.drain(..count).zip(replies).collect(), reply: Vec::new() })
    }
    fn settle(&mut self, job: ToolWork, mut reply: ToolWorkerReply, _life: u64) -> Option<ToolWork> {
        let ToolWork::Call(call) = job else { return None };
        self.record(&call, &mut reply);
        let ToolWorkerReply { status, text, .. } = reply;
        let result = match status {
            CallStatus::Missing => return Some(ToolWork::Call(call)),
            CallStatus::Succeeded => ToolResult::ok(text),
            CallStatus::Failed | CallStatus::Panicked => ToolResult::error(text),
            CallStatus::TimedOut => ToolResult::timed_out(text),
            CallStatus::Broken => ToolResult::infrastructure(text),
        };
        call.responder.resolve(result);
        None
    }
    fn fail(&mut self, job: ToolWork, failure: WorkerFailure) {
        match job {
            ToolWork::Call(call) => call.responder.resolve(self.failed(failure)),
            ToolWork::Close(session) => drop(self.records.forget(session)),
        }
    }
    /// Returns whether a call caused the death of the worker. A supervisor runs no programs itself, so its deaths have
    /// external causes.
    fn is_own_death(&self, status: ExitStatus) -> bool {
        self.key.installation().is_none() && process::worker_crashed(status)
    }
}

/// Returns a frame; empty if the payload is too large, so that nothing is sent and the calls run into their time limit.
fn frame(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.len() + 4);
    match wire::write_frame(&mut bytes, payload) {
        Ok(()) => bytes,
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::sql::SqlLimits;
    use crate::tools::{PendingToolResult, ToolLimits};

    fn worker(records: &Arc<ToolSessionRecords>) -> ToolWorkerWire {
        worker_of(records, WorkerKind::Monty)
    }

    fn worker_of(records: &Arc<ToolSessionRecords>, kind: WorkerKind) -> ToolWorkerWire {
        let key = PoolKey { limits: ToolLimits::default(), kind };
        ToolWorkerWire::new(Arc::clone(records), WorkerProgram("worker".into()), key)
    }

    /// Adds a call of session 7 as this number.
    fn call(worker: &mut ToolWorkerWire, number: u64, generation: u64) -> (PendingToolResult, ToolWork) {
        let (pending, responder) = PendingToolResult::new();
        let job = ToolWork::Call(QueuedToolCall { session: 7, code: Arc::from("x"), responder });
        (pending, worker.encode(job, number, generation).expect("a call has a response"))
    }

    fn sent(worker: &mut ToolWorkerWire) -> Vec<ToolWorkerJob> {
        let bytes = worker.take_bytes().expect("a batch").0;
        wire::decode_jobs(&bytes[4..]).expect("jobs")
    }

    fn reply(status: CallStatus) -> ToolWorkerReply {
        ToolWorkerReply { text: "y".to_string(), ..ToolWorkerReply::without_session(status) }
    }

    #[test]
    fn a_worker_that_does_not_hold_a_session_gets_its_recipe() {
        let records = Arc::<ToolSessionRecords>::default();
        records.insert(7, SessionRecipe::default());
        let mut worker = worker(&records);
        let code: Arc<str> = Arc::from("x");
        let run = || ToolWorkerJob::Call { session: 7, code: Arc::clone(&code) };
        let (first, job) = call(&mut worker, 1, 1);
        let (second, other) = call(&mut worker, 2, 1);
        assert_eq!(
            sent(&mut worker),
            [ToolWorkerJob::Open { session: 7, recipe: SessionRecipe::default() }, run(), run()]
        );
        assert!(worker.settle(job, reply(CallStatus::Succeeded), 1).is_none());
        assert_eq!(first.poll(), Some(ToolResult::ok("y")));
        let again = worker.settle(other, reply(CallStatus::Missing), 1);
        assert!(matches!(again, Some(ToolWork::Call(_))) && second.poll().is_none());
        let recipe = SessionRecipe {
            snapshot: None,
            history: vec![PastCall { code: Arc::clone(&code), result_digest: wire::digest("y") }],
        };
        assert_eq!(records.recipe(7), recipe);
        drop(call(&mut worker, 3, 2));
        assert_eq!(sent(&mut worker), [ToolWorkerJob::Open { session: 7, recipe }, run()]);
    }

    #[test]
    fn queries_leave_the_recipe_of_their_session() {
        let records = Arc::<ToolSessionRecords>::default();
        let recipe = SessionRecipe { snapshot: Some(Arc::from(b"{}".as_slice())), history: Vec::new() };
        records.insert(7, recipe.clone());
        let limits = SqlLimits { steps: 10_000, rows: 5, output_bytes: 100 };
        let mut worker = worker_of(&records, WorkerKind::Sql(limits));
        for status in [CallStatus::Succeeded, CallStatus::Failed, CallStatus::TimedOut] {
            let (_pending, job) = call(&mut worker, 1, 1);
            sent(&mut worker);
            assert!(worker.settle(job, reply(status), 1).is_none());
            assert_eq!(records.recipe(7), recipe);
        }
        let error = trainyard_core::Error::lost("gone");
        let text = worker.failed(WorkerFailure::Deaths { error, cause: WorkerExitCause::Own }).text;
        assert_eq!(text, "MemoryError: the query needs more memory than there is");
    }

    #[test]
    fn session_that_cannot_be_rebuilt_begins_anew() {
        let records = Arc::<ToolSessionRecords>::default();
        let past = PastCall { code: Arc::from("x"), result_digest: 1 };
        records.insert(7, SessionRecipe { snapshot: None, history: vec![past] });
        let mut worker = worker(&records);
        let (first, job) = call(&mut worker, 1, 1);
        sent(&mut worker);
        assert!(worker.settle(job, reply(CallStatus::Broken), 1).is_none());
        assert!(first.poll().is_some_and(|result| result.infrastructure));
        assert_eq!(records.recipe(7), SessionRecipe::default());
        drop(call(&mut worker, 2, 1));
        let opened = sent(&mut worker).into_iter().next();
        assert_eq!(opened, Some(ToolWorkerJob::Open { session: 7, recipe: SessionRecipe::default() }));
    }

    #[test]
    fn only_the_worker_that_holds_a_session_closes_it() {
        let records = Arc::<ToolSessionRecords>::default();
        let mut worker = worker(&records);
        for (generation, is_sent) in [(Some(1), true), (Some(2), false), (None, false)] {
            records.insert(7, SessionRecipe::default());
            drop(call(&mut worker, 1, 1));
            sent(&mut worker);
            assert_eq!(worker.settle_unsent(ToolWork::Close(7), generation).is_some(), is_sent, "{generation:?}");
            assert!(records.forget(7).is_none());
        }
    }

    #[test]
    fn replies_belong_to_the_calls_in_order() {
        let records = Arc::<ToolSessionRecords>::default();
        let mut worker = worker(&records);
        let calls: Vec<_> = (4..6).map(|number| call(&mut worker, number, 1)).collect();
        let mut frame = Vec::new();
        (0..3).for_each(|_| wire::encode_reply(&reply(CallStatus::Succeeded), &mut frame));
        let decoded = worker.decode(&frame).unwrap();
        assert_eq!(decoded.responses.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [4, 5]);
        assert!(worker.decode(b"garbage").is_err());
        drop(calls);
    }

    #[test]
    fn failures_describe_their_cause() {
        let worker = worker(&Arc::default());
        let error = trainyard_core::Error::lost("no worker");
        let death = |cause| worker.failed(WorkerFailure::Deaths { error: error.clone(), cause });
        assert!(death(WorkerExitCause::Late).timed_out && death(WorkerExitCause::Foreign).infrastructure);
        assert!(death(WorkerExitCause::Own).text.contains("MemoryError"));
        assert_eq!(worker.failed(WorkerFailure::Start(error.clone())).text, "error: no worker");
    }
}
