//! Unix time that nobody can set: the wall clock's at the beginning, and from there on the monotonic clock's.
//!
//! The engine waits by it before it tries a stage again. What is journaled is dated by the wall clock.

use std::time::Duration;
use trainyard_core::Clock;

pub(crate) struct Steady {
    /// In Unix milliseconds.
    began: i64,
    /// The same moment by the monotonic clock.
    since: Duration,
}

impl Steady {
    pub fn new(clock: &dyn Clock) -> Self {
        Self { began: clock.unix_millis(), since: clock.monotonic() }
    }
    /// In Unix milliseconds.
    pub fn now(&self, clock: &dyn Clock) -> i64 {
        let passed = clock.monotonic().saturating_sub(self.since);
        self.began.saturating_add(i64::try_from(passed.as_millis()).unwrap_or(i64::MAX))
    }
}
