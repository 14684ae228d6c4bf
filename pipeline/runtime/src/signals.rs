//! Receives the signals by which a user, the system or a closing terminal requests this process to stop.

use futures::future::{pending, select_all};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Stream of SIGINT (Ctrl-C), SIGTERM and, unless it was ignored at the start, SIGHUP.
pub(crate) struct Signals(Vec<Signal>);

impl Signals {
    /// Listens from now on. Must be called in a tokio runtime.
    pub fn listen() -> Self {
        let mut kinds = vec![SignalKind::interrupt(), SignalKind::terminate()];
        // Listening to an ignored signal would undo `nohup`. If its disposition is unknown, the signal keeps its
        // default effect.
        let status = std::fs::read_to_string("/proc/self/status").ok();
        if status.is_some_and(|status| !ignores_hangup(&status)) {
            kinds.push(SignalKind::hangup());
        }
        // A signal without a listener ends the process, as it does by default.
        Self(kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect())
    }
    /// Waits for the next signal.
    pub async fn next(&mut self) {
        if self.0.is_empty() {
            pending::<()>().await;
        }
        select_all(self.0.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
    }
}

/// Reads the mask of ignored signals from `/proc/<pid>/status`; SIGHUP is the lowest bit.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_none_or(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_hangup_is_read_from_the_mask() {
        let status = |mask: &str| format!("Name:\ttrainyard\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\nSigCgt:\t0\n");
        assert!(ignores_hangup(&status("0000000000001001")));
        assert!(!ignores_hangup(&status("0000000000001000")));
        assert!(ignores_hangup("Name:\ttrainyard\n"), "unknown");
    }
}
