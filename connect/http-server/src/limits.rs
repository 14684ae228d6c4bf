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

impl ServerLimits {
    /// Limits the connections to a quarter of the files that the process may open: a request may open files, too, and
    /// the rest is for the other work of the process.
    pub fn within_descriptors(self, descriptors: u64) -> Self {
        let most = usize::try_from(descriptors / 4).unwrap_or(usize::MAX).max(1);
        Self { connections: self.connections.min(most), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_process() {
        let connections = |descriptors| ServerLimits::default().within_descriptors(descriptors).connections;
        assert_eq!([0, 3, 256, 1_024, 2_048, u64::MAX].map(connections), [1, 1, 64, 256, 512, 512]);
    }
}
