//! Waits for an attempt to end, and enforces its timeout and the engine's requests.

use crate::executors::Control;
use std::time::Duration;
use tokio::sync::watch;

/// Time between the request to cancel and the kill of the process tree.
const CANCEL_GRACE: Duration = Duration::from_secs(10);
/// Time between the timeout and the kill of the process tree.
const TIMEOUT_GRACE: Duration = Duration::from_secs(2);

/// Why the engine ended an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TerminationReason {
    TimedOut,
    Cancelled,
}

/// Running attempt.
pub(super) trait AttemptExecution {
    type End;
    /// Waits until the attempt ends.
    fn ended(&mut self) -> impl Future<Output = Self::End> + Send;
    /// Requests the attempt to stop.
    fn request_stop(&mut self, why: TerminationReason) -> impl Future<Output = ()> + Send;
    /// Kills the attempt and all processes that it started.
    fn kill(&mut self) -> impl Future<Output = Self::End> + Send;
}

/// Waits for the end of an attempt. After the timeout or a request of the engine, asks the attempt to stop and kills it
/// after a grace period; then also returns why.
pub(super) async fn run_to_end<A: AttemptExecution>(
    attempt: &mut A,
    timeout: Option<Duration>,
    mut control: watch::Receiver<Control>,
) -> (A::End, Option<TerminationReason>) {
    let mut stopped = None;
    let mut limit = timeout;
    let mut control_open = true;
    loop {
        let expiry = after(limit);
        tokio::pin!(expiry);
        // A request that changes nothing must not restart the limit, so it is awaited in an inner loop.
        let rises = |c: &Control| *c > Control::Run && (stopped.is_none() || *c == Control::Kill);
        let next = loop {
            tokio::select! {
                end = attempt.ended() => return (end, stopped),
                () = &mut expiry => break None,
                changed = control.wait_for(rises), if control_open => match changed {
                    Ok(control) => break Some(*control),
                    Err(_) => control_open = false,
                },
            }
        };
        match (next, stopped) {
            (Some(Control::Cancel), _) => {
                stopped = Some(TerminationReason::Cancelled);
                attempt.request_stop(TerminationReason::Cancelled).await;
                limit = Some(CANCEL_GRACE);
            }
            (None, None) => {
                stopped = Some(TerminationReason::TimedOut);
                attempt.request_stop(TerminationReason::TimedOut).await;
                limit = Some(TIMEOUT_GRACE);
            }
            (Some(_), _) | (None, Some(_)) => {
                stopped.get_or_insert(TerminationReason::Cancelled);
                return (attempt.kill().await, stopped);
            }
        }
    }
}

/// Waits for the limit; never returns if it is `None`.
async fn after(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}
