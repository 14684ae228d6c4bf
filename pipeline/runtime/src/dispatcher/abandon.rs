//! Leaves or stops the attempts of a run whose journal this engine can no longer write.

use super::{Dispatcher, LAST_GRACE};
use crate::executors::Control;

impl Dispatcher {
    /// Leaves every attempt without journaling it: the run belongs to another writer, or its journal cannot be written.
    /// Attempts that outlive this engine are left to the next one, unless the user interrupted the run. All others are
    /// stopped.
    pub(super) async fn abandon(&mut self) {
        for running in self.running.values() {
            if running.outlives && self.interrupts == 0 {
                running.task.abort();
            } else {
                running.control.send_replace(Control::Cancel);
            }
        }
        let all = async { while self.attempts.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_GRACE, all).await.is_err() {
            for running in self.running.values() {
                running.control.send_replace(Control::Kill);
            }
            let rest = async { while self.attempts.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(LAST_GRACE, rest).await;
        }
    }
}
