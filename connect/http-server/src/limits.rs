//! Defines the limits of a server on connections and on waiting for their bytes.

use std::time::Duration;

/// Limits on connections and on waiting for their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Time for the head of a request, from the accepted connection or the end of the previous response on; then the
    /// connection is closed. It also limits the time for which an idle connection stays open.
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
