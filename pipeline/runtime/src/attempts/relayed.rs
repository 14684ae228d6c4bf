//! Waits for attempts whose executor relays their messages and enforces their timeouts.

use super::conclusion;
use super::supervisor::{AttemptSupervisor, StateReceiver, wait_beyond_control, waits_for_a_machine};
use crate::executors::{AttemptState, Control, Handle};
use crate::retry::backoff;
use std::time::Duration;
use trainyard_core::Error;
use trainyard_core::event::AttemptOutcome;
use trainyard_engine::AttemptCompletion;

/// When to retry reporting a reason that came too soon after the last one.
const REPORT_RETRY: Duration = Duration::from_secs(1);

impl AttemptSupervisor {
    /// Waits for an attempt whose executor relays its messages and enforces its timeout.
    pub(super) async fn relayed(&mut self, handle: &Handle, mut states: StateReceiver) -> AttemptCompletion {
        let mut asked = Control::Run;
        let until = self.wait().map(|limit| (limit, self.now() + limit));
        let mut gave_up = None;
        loop {
            match states.borrow_and_update().clone() {
                Some(AttemptState::Ended(ended)) => {
                    return gave_up.map_or_else(|| conclusion::from_executor(ended), conclusion::wait_timed_out);
                }
                Some(AttemptState::Pending { why }) => self.waiting.set_reason(why.unwrap_or_else(waits_for_a_machine)),
                Some(AttemptState::Started) => self.waiting.clear(),
                None => {}
            }
            self.report_wait();
            let left = until.filter(|_| self.waiting.is_waiting()).map(|(_, at)| at.saturating_sub(self.now()));
            tokio::select! {
                biased;
                changed = states.changed() => if changed.is_err() {
                    let error = Error::bug(format!("nobody drives pool `{}` any more", self.carrier.pool));
                    return AttemptCompletion::failed(AttemptOutcome::Failed, error);
                },
                () = wait_beyond_control(&mut self.control, asked) => {
                    let wanted = *self.control.borrow();
                    match self.carrier.executor.cancel(handle, wanted).await {
                        Ok(()) => asked = wanted,
                        Err(error) => {
                            tracing::info!(%error, "the attempt was not stopped, trying again");
                            tokio::time::sleep(backoff(1)).await;
                        }
                    }
                },
                () = tokio::time::sleep(left.unwrap_or_default()), if left.is_some() && gave_up.is_none() => {
                    gave_up = until.map(|(limit, _)| limit);
                    if let Err(error) = self.carrier.executor.cancel(handle, Control::Kill).await {
                        tracing::info!(%error, "an attempt that waited too long was not stopped");
                    }
                }
                () = tokio::time::sleep(REPORT_RETRY), if self.waiting.has_pending_report() => {}
            }
        }
    }
}
