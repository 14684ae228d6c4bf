//! What a daemon does to the world beside the store: it starts and cancels runs, and tells people. Injected, so that
//! the scheduler can be simulated.

use crate::schedule::event::{Skip, Tick};
use futures::future::BoxFuture;
use trainyard_core::{Digest, Result, RunId};

/// Everything outside of the store.
pub trait Outside: Send + Sync {
    /// Whether the process of this name lives; `None` if nobody here can tell, as of one on another host.
    fn is_alive(&self, name: &str) -> Option<bool>;
    /// Starts a process that begins the run, or goes on with it. It outlives this one.
    fn start<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<()>>;
    /// The process that was started last for a run.
    fn process(&self, run: &RunId) -> Process;
    /// Forgets the process of a run that is over.
    fn forget(&self, run: &RunId);
    /// Asks a run to stop, or writes its end if nobody goes on with it. Returns at once.
    fn cancel(&self, run: &RunId);
    /// Tells people.
    fn tell(&self, news: News);
}

/// A run to begin, or to go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The schedule.
    pub schedule: String,
    /// The run.
    pub run: RunId,
    /// The workflow file, as the definition names it.
    pub file: String,
    /// Digest of the texts that it was read from.
    pub texts: Digest,
    /// The tick.
    pub tick: Tick,
}

/// What became of a process that this daemon started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Process {
    /// This daemon has started none, or has forgotten it.
    None,
    /// It lives.
    Alive,
    /// It ended.
    Ended {
        /// Its exit code; none if a signal ended it.
        code: Option<i32>,
        /// The end of what it wrote to stderr.
        said: String,
    },
}

/// What people should hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A tick passed without a run, or came too late.
    Missed {
        /// The schedule.
        schedule: String,
        /// The tick.
        tick: Tick,
        /// Why; none if it came too late.
        why: Option<Skip>,
        /// How many earlier ticks passed with it.
        passed_over: u64,
    },
    /// The run of a tick could not begin, or was given up.
    NotStarted {
        /// The schedule.
        schedule: String,
        /// The tick.
        tick: Tick,
        /// Its run.
        run: RunId,
        /// Why.
        why: String,
    },
    /// A workflow file has mistakes; what was read before stays in force.
    Broken {
        /// The file.
        file: String,
        /// Its mistakes, a line each.
        why: String,
    },
}
