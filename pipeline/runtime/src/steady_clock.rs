//! Provides a Unix time that does not jump: it starts with the wall clock and continues with the monotonic clock.
//!
//! The engine uses it for the delay before a retry. Journal records have wall-clock times.

use std::time::Duration;
use trainyard_core::Clock;

pub(crate) struct SteadyClock {
    /// Start in Unix milliseconds.
    began: i64,
    /// Start by the monotonic clock.
    since: Duration,
}

impl SteadyClock {
    pub fn new(clock: &dyn Clock) -> Self {
        Self { began: clock.unix_millis(), since: clock.monotonic() }
    }
    /// Returns the time in Unix milliseconds.
    pub fn now(&self, clock: &dyn Clock) -> i64 {
        let passed = clock.monotonic().saturating_sub(self.since);
        self.began.saturating_add(i64::try_from(passed.as_millis()).unwrap_or(i64::MAX))
    }
}
