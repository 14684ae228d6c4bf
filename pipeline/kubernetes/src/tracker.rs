//! State kept between polls: since when a Pod is stuck, and decisions of the executor itself.
//!
//! The state is lost with the process. Afterwards a stuck Pod gets its full time again, and an attempt that was ended
//! because it was stuck counts as lost.

use crate::observation::JobObservation;
use crate::wait_reason::PodWaitReason;
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_core::Error;
use trainyard_core::event::AttemptOutcome;
use trainyard_runtime::executors::{AttemptExit, AttemptState, Handle};

/// How long a Pod may be stuck before the attempt is ended.
pub(crate) const STUCK: Duration = Duration::from_secs(120);
/// How long a deleted Pod may remain: its grace period, and two minutes for a node that does not respond. Such a Pod
/// remains until its node comes back; its later writes are refused, since its attempt is no longer the current one.
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
    /// Outcome to report once all Pods are gone.
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
    /// Judges a new observation; `now` is monotonic.
    pub fn judge(&mut self, handle: &Handle, sight: JobObservation, now: Duration) -> PollResult {
        let note = self.0.entry(handle.clone()).or_default();
        let judged = note.judge(sight, now);
        if matches!(judged.state, AttemptState::Ended(_)) {
            self.0.remove(handle);
        }
        judged
    }
}

impl TrackedAttempt {
    fn judge(&mut self, sight: JobObservation, now: Duration) -> PollResult {
        if !matches!(sight, JobObservation::Ending { .. }) {
            self.deleting_since = None;
        }
        match sight {
            JobObservation::Waits(waiting) => self.waits(waiting, now),
            JobObservation::NoPod => self.pending("its Job has no Pod yet".into()),
            JobObservation::Suspended { why } => {
                if self.started {
                    let error = Error::lost("Kueue took its nodes away from the attempt");
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
            Some(said) if waiting.backoff_only => said.clone(),
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
    fn a_stuck_attempt_is_ended_after_a_while_with_its_own_error() {
        let mut memory = AttemptTracker::default();
        assert!(!memory.judge(&handle(), stuck(false), seconds(1)).delete);
        let before = memory.judge(&handle(), stuck(true), seconds(120));
        assert_eq!(before, PollResult::state(AttemptState::Pending { why: Some("manifest unknown".into()) }));
        assert!(memory.judge(&handle(), stuck(true), seconds(121)).delete);
        let ends = JobObservation::Ending { how: Box::new(disrupted("deleted")) };
        assert_eq!(memory.judge(&handle(), ends, seconds(123)), PollResult::state(AttemptState::Started));
        let over = memory.judge(&handle(), JobObservation::Ended(Box::new(disrupted("deleted"))), seconds(125));
        let AttemptState::Ended(ended) = over.state else { panic!("it is over") };
        assert_eq!(ended.error, Some(Error::invalid("manifest unknown")));
        assert!(memory.0.is_empty(), "what is over is forgotten");
    }

    #[test]
    fn an_attempt_that_comes_loose_gets_its_time_again() {
        let mut memory = AttemptTracker::default();
        memory.judge(&handle(), stuck(false), seconds(0));
        memory.judge(&handle(), JobObservation::Waits(PodWaitReason::transient("pulling")), seconds(100));
        assert!(!memory.judge(&handle(), stuck(false), seconds(130)).delete);
        assert!(memory.judge(&handle(), stuck(false), seconds(250)).delete);
    }

    #[test]
    fn a_registry_that_is_away_is_waited_for_although_the_node_becomes_vague() {
        let mut memory = AttemptTracker::default();
        memory.judge(&handle(), JobObservation::Waits(PodWaitReason::transient("i/o timeout")), seconds(0));
        for at in [10, 200, 400] {
            let judged = memory.judge(&handle(), stuck(true), seconds(at));
            assert_eq!(judged, PollResult::state(AttemptState::Pending { why: Some("i/o timeout".into()) }));
        }
    }

    #[test]
    fn an_attempt_that_ran_and_is_suspended_is_lost() {
        let mut memory = AttemptTracker::default();
        let held = || JobObservation::Suspended { why: "it waits in Kueue's queue `team`".into() };
        assert!(!memory.judge(&handle(), held(), seconds(0)).delete);
        assert_eq!(
            memory.judge(&handle(), JobObservation::Runs, seconds(10)),
            PollResult::state(AttemptState::Started)
        );
        assert!(memory.judge(&handle(), held(), seconds(20)).delete);
        let over = memory.judge(&handle(), JobObservation::Ended(Box::new(disrupted("deleted"))), seconds(30));
        let AttemptState::Ended(ended) = over.state else { panic!("it is over") };
        assert_eq!(ended.error.unwrap().message, "Kueue took its nodes away from the attempt");
    }

    #[test]
    fn a_node_that_does_not_answer_is_given_up() {
        let mut memory = AttemptTracker::default();
        let ends = || JobObservation::Ending { how: Box::new(disrupted("its Pod was deleted")) };
        assert_eq!(memory.judge(&handle(), ends(), seconds(5)), PollResult::state(AttemptState::Started));
        assert_eq!(memory.judge(&handle(), ends(), seconds(154)), PollResult::state(AttemptState::Started));
        let AttemptState::Ended(ended) = memory.judge(&handle(), ends(), seconds(155)).state else {
            panic!("it is over")
        };
        assert_eq!(ended.error.unwrap().kind, ErrorKind::Lost);
    }
}
