//! Injects time: code that needs an instant takes a [`Clock`], and `clippy.toml` bans every other source.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wall-clock and monotonic time.
pub trait Clock: Send + Sync {
    /// Returns milliseconds since 1970-01-01 UTC.
    fn unix_millis(&self) -> i64;
    /// Returns the time since an arbitrary fixed point; never runs backwards.
    fn monotonic(&self) -> Duration;
}

/// Clock of the machine, which no other code in Trainyard reads.
pub struct SystemClock(Instant);

impl SystemClock {
    /// Creates a clock whose monotonic time starts now.
    #[expect(clippy::disallowed_methods, reason = "the clock that the lint's message names")]
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the clock that the lint's message names")]
    fn unix_millis(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
    }
    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Clock that is constant until it is advanced; for tests and simulation.
#[derive(Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Creates a clock at this many milliseconds since 1970-01-01 UTC.
    pub fn at_millis(millis: i64) -> Self {
        Self(AtomicI64::new(millis))
    }
    /// Moves wall-clock and monotonic time forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn unix_millis(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
    fn monotonic(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.load(Ordering::SeqCst)).unwrap_or(0))
    }
}
