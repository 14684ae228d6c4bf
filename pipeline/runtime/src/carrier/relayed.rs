//! Waits for attempts whose executor relays their messages and enforces their timeouts.

use super::carried::{Carried, Heard, rises, waits_for_a_machine};
use super::conclusion;
use crate::executors::{Control, Handle, State};
use crate::patience::growing;
use std::time::Duration;
use trainyard_core::Error;
use trainyard_core::event::AttemptOutcome;
use trainyard_engine::Finished;

/// When to retry reporting a reason that came too soon after the last one.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Carried {
    /// Waits for an attempt whose executor relays its messages and enforces its timeout.
    pub(super) async fn relayed(&mut self, handle: &Handle, mut states: Heard) -> Finished {
        let mut asked = Control::Run;
        let until = self.wait().map(|limit| (limit, self.now() + limit));
        let mut gave_up = None;
        loop {
            match states.borrow_and_update().clone() {
                Some(State::Ended(ended)) => return gave_up.map_or_else(|| conclusion::of(ended), conclusion::waited),
                Some(State::Pending { why }) => self.waiting.because(why.unwrap_or_else(waits_for_a_machine)),
                Some(State::Started) => self.waiting.over(),
                None => {}
            }
            self.tell_waiting();
            let left = until.filter(|_| self.waiting.is_waiting()).map(|(_, at)| at.saturating_sub(self.now()));
            tokio::select! {
                biased;
                changed = states.changed() => if changed.is_err() {
                    let error = Error::bug(format!("nobody drives pool `{}` any more", self.carrier.pool));
                    return Finished::failed(AttemptOutcome::Failed, error);
                },
                () = rises(&mut self.control, asked) => {
                    let wanted = *self.control.borrow();
                    match self.carrier.executor.cancel(handle, wanted).await {
                        Ok(()) => asked = wanted,
                        Err(error) => {
                            tracing::info!(%error, "the attempt was not stopped, trying again");
                            tokio::time::sleep(growing(1)).await;
                        }
                    }
                },
                () = tokio::time::sleep(left.unwrap_or_default()), if left.is_some() && gave_up.is_none() => {
                    gave_up = until.map(|(limit, _)| limit);
                    if let Err(error) = self.carrier.executor.cancel(handle, Control::Kill).await {
                        tracing::info!(%error, "an attempt that waited too long was not stopped");
                    }
                }
                () = tokio::time::sleep(LOOK_AGAIN), if self.waiting.is_owed() => {}
            }
        }
    }
}
