//! Keeps the sessions of one worker with the embedded interpreter, all in this process.

use crate::tools::ToolLimits;
use crate::tools::interpreter::{Interpreter, InterpreterResult, InterpreterStatus};
use crate::tools::wire::{CallStatus, PastCall, SessionRecipe, ToolWorkerReply};
use crate::tools::worker_sessions::WorkerSessions;
use std::collections::HashMap;
use std::time::Duration;
use trainyard_core::panics::catch_quietly;

/// Maximum time to replay a session; if replaying takes longer, the worker sends a snapshot.
const REPLAY_BUDGET: Duration = Duration::from_millis(2);
/// Maximum size of a snapshot in bytes. Larger ones are not sent, because replaying is cheaper than keeping them.
const MAX_SNAPSHOT: usize = 1 << 20;
/// Assumed cost of reading and compiling one program in a replay, on top of its run time.
const REPLAY_CALL: Duration = Duration::from_micros(20);

/// Interpreters by session.
pub struct EmbeddedSessions {
    limits: ToolLimits,
    sessions: HashMap<u64, EmbeddedSession>,
}

struct EmbeddedSession {
    interpreter: Interpreter,
    /// Program time since the last snapshot.
    unsaved: Duration,
}

impl EmbeddedSessions {
    pub fn new(limits: ToolLimits) -> Self {
        Self { limits, sessions: HashMap::new() }
    }
}

impl WorkerSessions for EmbeddedSessions {
    fn open(&mut self, session: u64, recipe: &SessionRecipe) {
        self.sessions.remove(&session);
        let limits = &self.limits;
        let opened = catch_quietly(|| {
            let mut interpreter = match &recipe.snapshot {
                Some(bytes) => Interpreter::load(bytes)?,
                None => Interpreter::new(limits),
            };
            let mut unsaved = Duration::ZERO;
            for PastCall { code, .. } in &recipe.history {
                let (next, result) = interpreter.run(code, limits);
                interpreter = next?;
                unsaved += result.cost + REPLAY_CALL;
            }
            Some(EmbeddedSession { interpreter, unsaved })
        });
        if let Ok(Some(open)) = opened {
            self.sessions.insert(session, open);
        }
    }
    fn close(&mut self, session: u64) {
        self.sessions.remove(&session);
    }
    fn call(&mut self, session: u64, code: &str) -> ToolWorkerReply {
        let Some(EmbeddedSession { interpreter, mut unsaved }) = self.sessions.remove(&session) else {
            return ToolWorkerReply::without_session(CallStatus::Missing);
        };
        let limits = &self.limits;
        let Ok((next, result)) = catch_quietly(|| interpreter.run(code, limits)) else {
            let text = "SystemError: the interpreter failed on this program".to_string();
            return ToolWorkerReply { text, ..ToolWorkerReply::without_session(CallStatus::Panicked) };
        };
        let InterpreterResult { status: interpreter_status, text, cost } = result;
        let mut snapshot = None;
        if let Some(interpreter) = next {
            unsaved += cost + REPLAY_CALL;
            if unsaved > REPLAY_BUDGET {
                snapshot = interpreter.save().filter(|bytes| bytes.len() <= MAX_SNAPSHOT);
                unsaved = Duration::ZERO;
            }
            self.sessions.insert(session, EmbeddedSession { interpreter, unsaved });
        }
        let status = match interpreter_status {
            InterpreterStatus::Succeeded => CallStatus::Succeeded,
            InterpreterStatus::Failed => CallStatus::Failed,
            InterpreterStatus::TimedOut => CallStatus::TimedOut,
        };
        ToolWorkerReply { status, text, cost: u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX), snapshot }
    }
}
