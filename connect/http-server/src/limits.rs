//! Bounds of a server, independent of its requests.

use std::time::Duration;

/// Bounds on connections and their reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Time for the head of a request, from the accepted connection or the end of the previous response on; then the
    /// connection is closed. So it is also the time for which an unused connection is kept.
    pub head: Duration,
    /// Time for which a request waits for more of its body; then reading the body fails.
    pub body: Duration,
    /// Number of open connections; further ones get status 503.
    pub connections: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self { head: Duration::from_secs(10), body: Duration::from_secs(30), connections: 512 }
    }
}
