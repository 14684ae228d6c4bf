//! Defines the engine's control of an attempt, which executors, supervisors of attempts and the wait for slots obey.

/// Control of a running attempt, requested by the engine. It never decreases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Control {
    /// Continue.
    Run,
    /// Stop soon and cleanly.
    Cancel,
    /// Stop now.
    Kill,
}
