//! Keeps state between polls: the time since which a Pod is stuck, and decisions of the executor itself.
//!
//! The state is lost with the process. In the next process, a stuck Pod gets its full time again, and an attempt that
//! the executor ended because it was stuck counts as lost.

use crate::observation::JobObservation;
use crate::wait_reason::PodWaitReason;
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_core::Error;
use trainyard_core::event::AttemptOutcome;
use trainyard_runtime::executors::{AttemptExit, AttemptState, Handle};

/// How long a Pod may be stuck before the attempt is ended.
pub(crate) const STUCK: Duration = Duration::from_secs(120);
/// How long a deleted Pod may remain: its grace period, and two minutes for a node that does not respond. After this
/// time the attempt counts as ended although the Pod remains until its node comes back. Results of such a Pod are
/// ignored, since its attempt is no longer current.
pub(crate) const DELETE_TIMEOUT: Duration = Duration::from_secs(crate::manifest::GRACE_SECONDS as u64 + 120);

/// State of the attempts that are polled.
#[derive(Default)]
pub(crate) struct AttemptTracker(BTreeMap<Handle, TrackedAttempt>);

/// State of one attempt.
#[derive(Default)]
struct TrackedAttempt {
    started: bool,
    stuck_since: Option<Duration>,
    deleting_since: Option<Duration>,
    /// Last specific reason from the node, before it only reported a back-off.
    last_reason: Option<PodWaitReason>,
    /// Outcome to report once all Pods are over or removed.
    verdict: Option<AttemptExit>,
}

/// Result of judging one observation.
#[derive(Debug, PartialEq)]
pub(crate) struct PollResult {
    /// State to report to the engine.
    pub state: AttemptState,
    /// Whether the caller must delete the Job.
    pub delete: bool,
}

impl PollResult {
    fn state(state: AttemptState) -> Self {
        Self { state, delete: false }
    }
}

impl AttemptTracker {
    /// Updates the state of an attempt with a new observation, and returns the state to report. Forgets an attempt that
    /// has ended. `now` is monotonic.
    pub fn judge(&mut self, handle: &Handle, observation: JobObservation, now: Duration) -> PollResult {
        let tracked = self.0.entry(handle.clone()).or_default();
        let result = tracked.judge(observation, now);
        if matches!(result.state, AttemptState::Ended(_)) {
            self.0.remove(handle);
        }
        result
    }
}

impl TrackedAttempt {
    fn judge(&mut self, observation: JobObservation, now: Duration) -> PollResult {
        if !matches!(observation, JobObservation::Ending { .. }) {
            self.deleting_since = None;
        }
        match observation {
            JobObservation::Waits(waiting) => self.waits(waiting, now),
            JobObservation::NoPod => self.pending("its Job has no Pod yet".into()),
            JobObservation::Suspended { why } => {
                if self.started {
                    let error = Error::lost("Kueue evicted the attempt from its nodes").by_preemption();
                    self.verdict.get_or_insert_with(|| AttemptExit::with_error(AttemptOutcome::Lost, error));
                }
                self.pending(why)
            }
            JobObservation::Runs => {
                self.started = true;
                self.stuck_since = None;
                PollResult { state: AttemptState::Started, delete: self.verdict.is_some() }
            }
            JobObservation::Ending { how } => {
                let since = *self.deleting_since.get_or_insert(now);
                let given_up = now.saturating_sub(since) >= DELETE_TIMEOUT;
                PollResult::state(if given_up { self.ended(*how) } else { AttemptState::Started })
            }
            JobObservation::Ended(how) => PollResult::state(self.ended(*how)),
        }
    }
    fn waits(&mut self, waiting: PodWaitReason, now: Duration) -> PollResult {
        let waiting = match &self.last_reason {
            Some(previous) if waiting.backoff_only => previous.clone(),
            _ => waiting,
        };
        self.last_reason = Some(waiting.clone());
        match waiting.stuck {
            None => self.stuck_since = None,
            Some(error) => {
                let since = *self.stuck_since.get_or_insert(now);
                if now.saturating_sub(since) >= STUCK {
                    self.verdict.get_or_insert_with(|| AttemptExit::with_error(AttemptOutcome::Failed, error));
                }
            }
        }
        self.pending(waiting.why)
    }
    fn pending(&self, why: String) -> PollResult {
        PollResult { state: AttemptState::Pending { why: Some(why) }, delete: self.verdict.is_some() }
    }
    fn ended(&mut self, how: AttemptExit) -> AttemptState {
        AttemptState::Ended(self.verdict.take().unwrap_or(how))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::disrupted;
    use trainyard_core::ErrorKind;

    fn handle() -> Handle {
        Handle("j".into())
    }

    fn stuck(vague: bool) -> JobObservation {
        let why = if vague { "back-off" } else { "manifest unknown" };
        JobObservation::Waits(PodWaitReason { why: why.into(), stuck: Some(Error::invalid(why)), backoff_only: vague })
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn stuck_attempt_ends_with_the_specific_error() {
        let mut tracker = AttemptTracker::default();
        assert!(!tracker.judge(&handle(), stuck(false), seconds(1)).delete);
        let before = tracker.judge(&handle(), stuck(true), seconds(120));
        assert_eq!(before, PollResult::state(AttemptState::Pending { why: Some("manifest unknown".into()) }));
        assert!(tracker.judge(&handle(), stuck(true), seconds(121)).delete);
        let ends = JobObservation::Ending { how: Box::new(disrupted("deleted")) };
        assert_eq!(tracker.judge(&handle(), ends, seconds(123)), PollResult::state(AttemptState::Started));
        let over = tracker.judge(&handle(), JobObservation::Ended(Box::new(disrupted("deleted"))), seconds(125));
        let AttemptState::Ended(ended) = over.state else { panic!("it is over") };
        assert_eq!(ended.error, Some(Error::invalid("manifest unknown")));
        assert!(tracker.0.is_empty(), "an ended attempt is not tracked any more");
    }

    #[test]
    fn stuck_timer_restarts_after_progress() {
        let mut tracker = AttemptTracker::default();
        tracker.judge(&handle(), stuck(false), seconds(0));
        tracker.judge(&handle(), JobObservation::Waits(PodWaitReason::transient("pulling")), seconds(100));
        assert!(!tracker.judge(&handle(), stuck(false), seconds(130)).delete);
        assert!(tracker.judge(&handle(), stuck(false), seconds(250)).delete);
    }

    #[test]
    fn unreachable_registry_is_waited_for_during_backoff() {
        let mut tracker = AttemptTracker::default();
        tracker.judge(&handle(), JobObservation::Waits(PodWaitReason::transient("i/o timeout")), seconds(0));
        for at in [10, 200, 400] {
            let result = tracker.judge(&handle(), stuck(true), seconds(at));
            assert_eq!(result, PollResult::state(AttemptState::Pending { why: Some("i/o timeout".into()) }));
        }
    }

    #[test]
    fn attempt_suspended_after_start_is_lost() {
        let mut tracker = AttemptTracker::default();
        let suspended = || JobObservation::Suspended { why: "waits in Kueue's queue `team`".into() };
        assert!(!tracker.judge(&handle(), suspended(), seconds(0)).delete);
        assert_eq!(
            tracker.judge(&handle(), JobObservation::Runs, seconds(10)),
            PollResult::state(AttemptState::Started)
        );
        assert!(tracker.judge(&handle(), suspended(), seconds(20)).delete);
        let over = tracker.judge(&handle(), JobObservation::Ended(Box::new(disrupted("deleted"))), seconds(30));
        let AttemptState::Ended(ended) = over.state else { panic!("it is over") };
        assert_eq!(ended.error.unwrap().message, "Kueue evicted the attempt from its nodes");
    }

    #[test]
    fn unresponsive_node_is_given_up_after_delete_timeout() {
        let mut tracker = AttemptTracker::default();
        let ends = || JobObservation::Ending { how: Box::new(disrupted("its Pod was deleted")) };
        assert_eq!(tracker.judge(&handle(), ends(), seconds(5)), PollResult::state(AttemptState::Started));
        assert_eq!(tracker.judge(&handle(), ends(), seconds(154)), PollResult::state(AttemptState::Started));
        let AttemptState::Ended(ended) = tracker.judge(&handle(), ends(), seconds(155)).state else {
            panic!("it is over")
        };
        assert_eq!(ended.error.unwrap().kind, ErrorKind::Lost);
    }
}
