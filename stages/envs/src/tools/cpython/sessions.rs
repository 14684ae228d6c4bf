//! Keeps the sessions of one worker that supervises CPython processes.
//!
//! A session is rebuilt by running its programs again in a new process. The new state is correct only if the programs
//! behave the same, so their results are compared; a session with other results is lost rather than silently different.

use super::fault::CpythonFault;
use super::process::{CpythonProcess, RunnerReply};
use super::scratch::SessionScratch;
use super::setup::CpythonSetup;
use crate::tools::ToolLimits;
use crate::tools::wire::{CallStatus, PastCall, SessionRecipe, ToolWorkerReply, digest};
use crate::tools::worker_sessions::WorkerSessions;
use std::collections::HashMap;
use std::time::Duration;
use trainyard_core::{Clock, SystemClock};

/// Maximum number of processes of a worker. The least recently used session loses its process first, and is rebuilt on
/// its next call.
const MAX_PROCESSES: usize = 64;

/// Maximum time to run the programs of a session again, in calls of full length.
const REBUILD_CALLS: u32 = 10;

/// Processes by session.
pub struct CpythonSessions {
    setup: CpythonSetup,
    limits: ToolLimits,
    open: HashMap<u64, OpenProcess>,
    /// Sessions that could not be rebuilt, with the reason.
    broken: HashMap<u64, String>,
    clock: SystemClock,
    /// Number of calls so far.
    count: u64,
}

struct OpenProcess {
    process: CpythonProcess,
    used: u64,
    /// Whether the process has run the programs of a recipe, and no call since.
    is_rebuilt: bool,
}

impl CpythonSessions {
    pub fn new(setup: CpythonSetup, limits: ToolLimits) -> Self {
        let clock = SystemClock::new();
        Self { setup, limits, open: HashMap::new(), broken: HashMap::new(), clock, count: 0 }
    }
    fn rebuild(&self, session: u64, recipe: &SessionRecipe) -> Result<CpythonProcess, String> {
        // The name must not change, because programs may print it.
        let folder = self.setup.scratch.join(session.to_string());
        let scratch = SessionScratch::create(folder).map_err(|e| format!("cannot make a folder for CPython: {e}"))?;
        let mut process = CpythonProcess::start(&self.setup.installation, &self.limits, scratch)?;
        let most = self.limits.time() * REBUILD_CALLS;
        let start = self.clock.monotonic();
        for PastCall { code, result_digest: digest_before } in &recipe.history {
            let left = most.saturating_sub(self.clock.monotonic().saturating_sub(start));
            let reply = self.run(&mut process, code, left.min(self.limits.time()));
            if reply == Err(CpythonFault::TimedOut) && left < self.limits.time() {
                return Err(format!("the programs of this session take longer than {} s to repeat", most.as_secs()));
            }
            if !reply.is_ok_and(|answer| digest(&self.shorten(answer.text)) == *digest_before) {
                return Err("a program of this session returned a different result when it was repeated".to_string());
            }
        }
        Ok(process)
    }
    fn run(&self, process: &mut CpythonProcess, code: &str, time: Duration) -> Result<RunnerReply, CpythonFault> {
        let reply = process.run(code, time);
        if matches!(reply, Err(CpythonFault::CallerGone)) {
            // The kernel kills the programs when this process exits, so their files must be removed here.
            let _ = std::fs::remove_dir_all(&self.setup.scratch);
            std::process::exit(0);
        }
        reply
    }
    /// Truncates a text. The runner truncates it already, but a program that impersonates the runner may not.
    fn shorten(&self, text: String) -> String {
        let max = self.limits.output_bytes as usize + 512;
        text.chars()
            .scan(0, |size, c| {
                *size += c.len_utf8();
                (*size <= max).then_some(c)
            })
            .collect()
    }
    fn make_room(&mut self) {
        while self.open.len() >= MAX_PROCESSES {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.used).map(|(session, _)| *session);
            let Some(oldest) = oldest else { return };
            self.open.remove(&oldest);
        }
    }
}

impl WorkerSessions for CpythonSessions {
    fn open(&mut self, session: u64, recipe: &SessionRecipe) {
        self.close(session);
        self.make_room();
        match self.rebuild(session, recipe) {
            Ok(process) => {
                let is_rebuilt = !recipe.history.is_empty();
                self.open.insert(session, OpenProcess { process, used: self.count, is_rebuilt });
            }
            Err(reason) => drop(self.broken.insert(session, reason)),
        }
    }
    fn close(&mut self, session: u64) {
        self.open.remove(&session);
        self.broken.remove(&session);
    }
    fn call(&mut self, session: u64, code: &str) -> ToolWorkerReply {
        if let Some(reason) = self.broken.remove(&session) {
            return ToolWorkerReply {
                text: format!("error: {reason}; the next call begins a new session"),
                ..ToolWorkerReply::without_session(CallStatus::Broken)
            };
        }
        let Some(mut open) = self.open.remove(&session) else {
            return ToolWorkerReply::without_session(CallStatus::Missing);
        };
        self.count += 1;
        open.used = self.count;
        let start = self.clock.monotonic();
        let reply = self.run(&mut open.process, code, self.limits.time());
        let cost = self.clock.monotonic().saturating_sub(start);
        match reply {
            Ok(RunnerReply { failed, text, .. }) => {
                open.is_rebuilt = false;
                self.open.insert(session, open);
                let status = if failed { CallStatus::Failed } else { CallStatus::Succeeded };
                ToolWorkerReply { status, text: self.shorten(text), cost: nanos(cost), snapshot: None }
            }
            // A program that ends the process after its forged response would do so in every rebuild.
            Err(CpythonFault::EarlyExit) if open.is_rebuilt => ToolWorkerReply {
                text: "error: a program of this session ends the interpreter; the next call begins a new session"
                    .into(),
                ..ToolWorkerReply::without_session(CallStatus::Broken)
            },
            Err(fault) => {
                let status = match fault {
                    CpythonFault::TimedOut => CallStatus::TimedOut,
                    CpythonFault::EarlyExit => CallStatus::Missing,
                    _ => CallStatus::Panicked,
                };
                ToolWorkerReply { text: fault.describe(&self.limits), ..ToolWorkerReply::without_session(status) }
            }
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Drop for CpythonSessions {
    fn drop(&mut self) {
        self.open.clear();
        let _ = std::fs::remove_dir_all(&self.setup.scratch);
    }
}
