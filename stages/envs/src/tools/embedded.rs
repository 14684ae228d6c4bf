//! Sessions of one worker with the embedded interpreter, all in this process.

use crate::tools::ToolLimits;
use crate::tools::interpreter::{Ending, Interpreter, Ran};
use crate::tools::sessions::Sessions;
use crate::tools::wire::{Answered, Past, Recipe, Reply};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// A session that can be replayed within this time is not snapshotted.
const REPLAY_BUDGET: Duration = Duration::from_millis(2);
/// Larger snapshots are not sent; replaying is cheaper than keeping them.
const MAX_SNAPSHOT: usize = 1 << 20;
/// Assumed cost of reading and compiling one program in a replay, on top of its run time.
const REPLAY_CALL: Duration = Duration::from_micros(20);

/// Interpreters by session.
pub struct EmbeddedSessions {
    limits: ToolLimits,
    sessions: HashMap<u64, Open>,
}

struct Open {
    interpreter: Interpreter,
    /// Program time since the last snapshot.
    unsaved: Duration,
}

impl EmbeddedSessions {
    pub fn new(limits: ToolLimits) -> Self {
        Self { limits, sessions: HashMap::new() }
    }
}

impl Sessions for EmbeddedSessions {
    fn open(&mut self, session: u64, recipe: &Recipe) {
        self.sessions.remove(&session);
        let limits = &self.limits;
        let made = catch_unwind(AssertUnwindSafe(|| {
            let mut interpreter = match &recipe.snapshot {
                Some(bytes) => Interpreter::load(bytes)?,
                None => Interpreter::new(limits),
            };
            let mut unsaved = Duration::ZERO;
            for Past { code, .. } in &recipe.history {
                let (kept, ran) = interpreter.run(code, limits);
                interpreter = kept?;
                unsaved += ran.cost + REPLAY_CALL;
            }
            Some(Open { interpreter, unsaved })
        }));
        if let Ok(Some(open)) = made {
            self.sessions.insert(session, open);
        }
    }
    fn close(&mut self, session: u64) {
        self.sessions.remove(&session);
    }
    fn call(&mut self, session: u64, code: &str) -> Reply {
        let Some(Open { interpreter, mut unsaved }) = self.sessions.remove(&session) else {
            return Reply::without_session(Answered::Missing);
        };
        let limits = &self.limits;
        let Ok((kept, ran)) = catch_unwind(AssertUnwindSafe(|| interpreter.run(code, limits))) else {
            let text = "SystemError: the interpreter failed on this program".to_string();
            return Reply { text, ..Reply::without_session(Answered::Panicked) };
        };
        let Ran { ending, text, cost } = ran;
        let mut snapshot = None;
        if let Some(interpreter) = kept {
            unsaved += cost + REPLAY_CALL;
            if unsaved > REPLAY_BUDGET {
                snapshot = interpreter.save().filter(|bytes| bytes.len() <= MAX_SNAPSHOT);
                unsaved = Duration::ZERO;
            }
            self.sessions.insert(session, Open { interpreter, unsaved });
        }
        let answered = match ending {
            Ending::Fine => Answered::Fine,
            Ending::Failed => Answered::Failed,
            Ending::TimedOut => Answered::TimedOut,
        };
        Reply { answered, text, cost: u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX), snapshot }
    }
}
