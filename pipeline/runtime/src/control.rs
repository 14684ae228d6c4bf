//! Requests of the engine to an attempt, for the executors, the supervisors of attempts and the wait for slots.

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
