//! Thread that owns one worker: sends batches, distributes replies, and finds out which call killed a worker.
//!
//! A dying worker takes a whole batch with it, so each unanswered call is run again alone. A call that kills a fresh
//! process *alone* is at fault and gets a tool error; this depends only on the call and its session. Deaths with
//! external causes are repaired silently up to [`MAX_LOSSES`] times: sessions are rebuilt exactly from their recipes,
//! and no agent is affected by another's crash.

use super::key::PoolKey;
use super::process::{ExitCause, ToolWorkerProcess};
use super::queue::{QueuedCall, ToolWorkerQueue, WorkItem};
use crate::tools::ToolResult;
use crate::tools::wire::{self, CallStatus, PastCall, SessionRecipe, ToolWorkerJob, ToolWorkerReply};
use crate::tools::worker_program::WorkerProgram;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How many workers may die under a call without its fault before it becomes an infrastructure failure.
const MAX_LOSSES: u32 = 3;
/// Time after a call's limit at which its worker is killed.
const GRACE: Duration = Duration::from_secs(1);
/// Grace period where the worker only supervises and ends late calls itself.
const SUPERVISED_GRACE: Duration = Duration::from_secs(10);
/// Time for a worker to start the process of a session, in addition to the worker's own limit.
const SUPERVISED_START: Duration = Duration::from_secs(40);

pub struct ToolWorkerDriver {
    queue: Arc<ToolWorkerQueue>,
    program: WorkerProgram,
    key: PoolKey,
    worker: Option<ToolWorkerProcess>,
    /// Number of the current process; sessions record the number of the process that holds them.
    incarnation: u64,
}

/// A dead process: the cause, and the calls it had not answered.
struct ToolWorkerLoss {
    cause: ExitCause,
    unanswered: Vec<QueuedCall>,
}

impl ToolWorkerDriver {
    pub fn new(lane: Arc<ToolWorkerQueue>, program: WorkerProgram, key: PoolKey) -> Self {
        Self { queue: lane, program, key, worker: None, incarnation: 0 }
    }
    /// Works until the lane is shut down.
    pub fn run(mut self) {
        loop {
            let batch = self.queue.take();
            if batch.is_empty() {
                return self.stop();
            }
            self.work(batch);
        }
    }
    fn work(&mut self, batch: Vec<WorkItem>) {
        let lost = match self.attempt(batch) {
            Ok(again) => again,
            Err(lost) if lost.cause == ExitCause::Shutdown => return give_up(lost.unanswered),
            Err(lost) => lost.unanswered,
        };
        for call in lost {
            self.run_alone(call);
        }
    }
    /// Runs one call alone until it is answered.
    fn run_alone(&mut self, mut call: QueuedCall) {
        let mut alone = false;
        loop {
            if alone {
                self.stop();
            }
            let lost = match self.attempt(vec![WorkItem::Call(call)]) {
                Ok(mut again) => match again.pop() {
                    None => return,
                    // This process failed to rebuild the session.
                    Some(missing) => ToolWorkerLoss { cause: ExitCause::External, unanswered: vec![missing] },
                },
                Err(lost) => lost,
            };
            let Some(unanswered) = lost.unanswered.into_iter().next() else { return };
            call = unanswered;
            match lost.cause {
                ExitCause::Shutdown => return give_up(vec![call]),
                ExitCause::TimedOut => return call.answer.respond(self.late()),
                ExitCause::Crashed if alone => return call.answer.respond(self.out_of_memory()),
                ExitCause::Crashed => alone = true,
                ExitCause::External => {
                    call.losses += 1;
                    alone = true;
                    if call.losses == MAX_LOSSES {
                        return call.answer.respond(ToolResult::infrastructure("error: the tool was lost"));
                    }
                }
            }
        }
    }
    fn late(&self) -> ToolResult {
        ToolResult::timed_out(format!("TimeoutError: the call ran longer than {} ms", self.key.limits.time_millis))
    }
    fn out_of_memory(&self) -> ToolResult {
        ToolResult::error("MemoryError: the program needs more memory than there is")
    }
    /// Sends a batch and distributes its replies. Returns the calls whose sessions the worker did not have, to be run
    /// again in order, or the calls lost with the process.
    fn attempt(&mut self, batch: Vec<WorkItem>) -> Result<Vec<QueuedCall>, ToolWorkerLoss> {
        let has_calls = batch.iter().any(|work| matches!(work, WorkItem::Call(_)));
        if has_calls && let Err(message) = self.ensure_worker() {
            let unanswered = self.take_calls(batch);
            for call in unanswered {
                call.answer.respond(ToolResult::infrastructure(format!("error: {message}")));
            }
            return Ok(Vec::new());
        }
        let mut jobs = Vec::with_capacity(batch.len());
        let mut waiting = VecDeque::new();
        let (grace, start) = match self.key.cpython {
            Some(_) => (SUPERVISED_GRACE, SUPERVISED_START),
            None => (GRACE, GRACE),
        };
        let mut patience = self.key.limits.time() + grace;
        for work in batch {
            match work {
                WorkItem::Close(session) => {
                    let record = self.queue.forget(session);
                    if record.is_some_and(|r| r.held_by == self.incarnation) {
                        jobs.push(ToolWorkerJob::Close { session });
                    }
                }
                WorkItem::Call(call) => {
                    if let Some((recipe, cost)) = self.missing_session(call.session) {
                        patience += cost * 4 + start;
                        jobs.push(ToolWorkerJob::Open { session: call.session, recipe });
                    }
                    jobs.push(ToolWorkerJob::Call { session: call.session, code: Arc::clone(&call.code) });
                    waiting.push_back(call);
                }
            }
        }
        self.exchange(&jobs, waiting, patience)
    }
    /// Returns the recipe of a session that the current process does not hold. Marks it as held from now on.
    fn missing_session(&self, session: u64) -> Option<(SessionRecipe, Duration)> {
        let incarnation = self.incarnation;
        let opened = self.queue.with_session(session, |record| {
            let held = std::mem::replace(&mut record.held_by, incarnation) == incarnation;
            (!held).then(|| (record.recipe.clone(), record.cost))
        });
        opened.flatten()
    }
    fn exchange(
        &mut self,
        jobs: &[ToolWorkerJob],
        mut waiting: VecDeque<QueuedCall>,
        patience: Duration,
    ) -> Result<Vec<QueuedCall>, ToolWorkerLoss> {
        let Some(worker) = &mut self.worker else { return Ok(Vec::new()) };
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        // A failed write means a dead worker; the read will return the cause.
        let _ = worker.send(&wire::encode_jobs(jobs));
        let mut again = Vec::new();
        while !waiting.is_empty() {
            let Some(worker) = &mut self.worker else { break };
            match worker.replies(patience, || self.queue.is_shut()) {
                Ok(replies) => {
                    for reply in replies {
                        let Some(call) = waiting.pop_front() else { break };
                        again.extend(self.handle_reply(call, reply));
                    }
                }
                Err(death) => {
                    self.stop();
                    again.extend(waiting);
                    return Err(ToolWorkerLoss { cause: death, unanswered: again });
                }
            }
        }
        Ok(again)
    }
    /// Updates the session's record and answers the call. Returns the call if the worker did not have the session.
    fn handle_reply(&self, call: QueuedCall, reply: ToolWorkerReply) -> Option<QueuedCall> {
        let ToolWorkerReply { status: answered, text, cost, snapshot } = reply;
        self.queue.with_session(call.session, |record| match answered {
            CallStatus::Succeeded | CallStatus::Failed => {
                if let Some(snapshot) = snapshot {
                    record.recipe = SessionRecipe { snapshot: Some(Arc::from(snapshot)), history: Vec::new() };
                    record.cost = Duration::ZERO;
                } else {
                    record
                        .recipe
                        .history
                        .push(PastCall { code: Arc::clone(&call.code), result_digest: wire::digest(&text) });
                    record.cost += Duration::from_nanos(cost);
                }
            }
            CallStatus::TimedOut | CallStatus::Panicked | CallStatus::Missing | CallStatus::Broken => {
                record.held_by = 0
            }
        });
        let result = match answered {
            CallStatus::Missing => return Some(call),
            CallStatus::Succeeded => ToolResult::ok(text),
            CallStatus::Failed | CallStatus::Panicked => ToolResult::error(text),
            CallStatus::TimedOut => ToolResult::timed_out(text),
            CallStatus::Broken => ToolResult::infrastructure(text),
        };
        call.answer.respond(result);
        None
    }
    fn ensure_worker(&mut self) -> Result<(), String> {
        if self.worker.is_some() {
            return Ok(());
        }
        let worker = ToolWorkerProcess::start(&self.program, &self.key).map_err(|e| e.to_string())?;
        self.incarnation += 1;
        self.queue.set_worker(Some(worker.id()));
        self.worker = Some(worker);
        Ok(())
    }
    /// Ends the process; its sessions will be rebuilt from their recipes.
    fn stop(&mut self) {
        if self.worker.take().is_some() {
            self.queue.set_worker(None);
        }
    }
    /// Takes the calls of a batch that no worker will see. Closes are carried out.
    fn take_calls(&self, batch: Vec<WorkItem>) -> Vec<QueuedCall> {
        let mut calls = Vec::new();
        for work in batch {
            match work {
                WorkItem::Call(call) => calls.push(call),
                WorkItem::Close(session) => drop(self.queue.forget(session)),
            }
        }
        calls
    }
}

fn give_up(calls: Vec<QueuedCall>) {
    for call in calls {
        call.answer.respond(ToolResult::infrastructure("error: the tool is shutting down"));
    }
}
