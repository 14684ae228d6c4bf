//! Counts the work of the running statement: SQLite's progress handler reports it every thousand instructions.
//!
//! The number of instructions is the same in every run, so it decides alone whether a statement fails for the agent.
//! Time is a second bound: one instruction may compare megabytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use trainyard_core::{Clock, SystemClock};

/// SQLite instructions between two checks of the limits.
pub const STEPS_PER_CHECK: u64 = 1_000;

/// Budget of one statement at a time.
pub struct StatementBudget {
    clock: Arc<dyn Clock>,
    time: Duration,
    /// Thousands of instructions that the statement may use.
    checks: AtomicU64,
    /// Thousands of instructions that the statement has used.
    used: AtomicU64,
    /// Monotonic time at the start of the statement, in nanoseconds.
    start: AtomicU64,
    late: AtomicBool,
}

impl StatementBudget {
    /// Creates a budget of this time for each statement, by the machine's clock.
    pub fn within(time: Duration) -> Self {
        Self::by_clock(time, Arc::new(SystemClock::new()))
    }
    /// Creates a budget of this time for each statement, by a clock.
    pub fn by_clock(time: Duration, clock: Arc<dyn Clock>) -> Self {
        let zero = AtomicU64::default;
        Self { clock, time, checks: zero(), used: zero(), start: zero(), late: AtomicBool::new(false) }
    }
    /// Begins a statement that may use so many instructions.
    pub fn begin(&self, steps: u64) {
        self.checks.store(steps / STEPS_PER_CHECK, Ordering::Relaxed);
        self.used.store(0, Ordering::Relaxed);
        self.start.store(nanos(self.clock.monotonic()), Ordering::Relaxed);
        self.late.store(false, Ordering::Relaxed);
    }
    /// Counts a thousand instructions. Returns whether the statement must stop.
    pub fn spend(&self) -> bool {
        if self.used.fetch_add(1, Ordering::Relaxed) + 1 >= self.checks.load(Ordering::Relaxed) {
            return true;
        }
        let elapsed = nanos(self.clock.monotonic()).saturating_sub(self.start.load(Ordering::Relaxed));
        let is_late = elapsed > nanos(self.time);
        self.late.store(is_late, Ordering::Relaxed);
        is_late
    }
    /// Returns whether time, rather than instructions, stopped the statement.
    pub fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::clock::ManualClock;

    #[test]
    fn instructions_and_time_stop_a_statement() {
        let clock = Arc::new(ManualClock::default());
        let budget = StatementBudget::by_clock(Duration::from_millis(50), clock.clone());
        budget.begin(3_000);
        assert_eq!([budget.spend(), budget.spend(), budget.spend()], [false, false, true]);
        assert!(!budget.is_late());
        budget.begin(1_000_000);
        clock.advance(Duration::from_millis(50));
        assert!(!budget.spend());
        clock.advance(Duration::from_millis(1));
        assert!(budget.spend() && budget.is_late());
        // The next statement starts with the whole budget; at both limits, the instructions count.
        budget.begin(2_000);
        assert!(!budget.spend() && !budget.is_late());
        clock.advance(Duration::from_secs(1));
        assert!(budget.spend() && !budget.is_late());
    }
}
