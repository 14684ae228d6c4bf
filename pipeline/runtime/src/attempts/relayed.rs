//! Waits for the end of attempts whose executor relays their messages and enforces their timeouts.

use super::conclusion;
use super::supervisor::{AttemptSupervisor, StateReceiver, wait_beyond_control, waits_for_a_machine};
use crate::executors::{AttemptState, Control, Handle};
use crate::retry::backoff;
use std::time::Duration;
use trainyard_core::Error;
use trainyard_core::event::AttemptOutcome;
use trainyard_engine::AttemptCompletion;

/// Delay before the tracker is checked again for a reason that came too soon after the last report.
const REPORT_RETRY: Duration = Duration::from_secs(1);

impl AttemptSupervisor {
    /// Waits for the attempt's end and forwards the engine's controls to the executor. Kills an attempt that waits for
    /// its machine longer than its spec allows.
    pub(super) async fn relayed(&mut self, handle: &Handle, mut states: StateReceiver) -> AttemptCompletion {
        let mut current = Control::Run;
        let deadline = self.wait().map(|limit| (limit, self.now() + limit));
        let mut timed_out = None;
        loop {
            match states.borrow_and_update().clone() {
                Some(AttemptState::Ended(ended)) => {
                    return timed_out.map_or_else(|| conclusion::from_executor(ended), conclusion::wait_timed_out);
                }
                Some(AttemptState::Pending { why }) => self.waiting.set_reason(why.unwrap_or_else(waits_for_a_machine)),
                Some(AttemptState::Started) => self.waiting.clear(),
                None => {}
            }
            self.report_wait();
            let limit = deadline.filter(|_| self.waiting.is_waiting()).map(|(_, at)| at.saturating_sub(self.now()));
            let reminder = self.waiting.until_reminder(self.now()).map(|time| time.max(REPORT_RETRY));
            tokio::select! {
                biased;
                changed = states.changed() => if changed.is_err() {
                    let error = Error::bug(format!("the driver of pool `{}` has ended", self.client.pool));
                    return AttemptCompletion::failed(AttemptOutcome::Failed, error);
                },
                () = wait_beyond_control(&mut self.control, current) => {
                    let requested = *self.control.borrow();
                    match self.client.executor.cancel(handle, requested).await {
                        Ok(()) => current = requested,
                        Err(error) => {
                            tracing::info!(%error, "cannot stop the attempt, trying again");
                            tokio::time::sleep(backoff(1)).await;
                        }
                    }
                },
                () = tokio::time::sleep(limit.unwrap_or_default()), if limit.is_some() && timed_out.is_none() => {
                    timed_out = deadline.map(|(limit, _)| limit);
                    if let Err(error) = self.client.executor.cancel(handle, Control::Kill).await {
                        tracing::info!(%error, "cannot stop an attempt that waited too long");
                    }
                }
                () = tokio::time::sleep(REPORT_RETRY), if self.waiting.has_pending_report() => {}
                () = tokio::time::sleep(reminder.unwrap_or_default()), if reminder.is_some() => {}
            }
        }
    }
}
