//! State kept between polls: since when a Pod is stuck, and decisions of the executor itself.
//!
//! The state is lost with the process. Afterwards a stuck Pod gets its full time again, and an attempt that was ended
//! because it was stuck counts as lost.

use crate::state::Sight;
use crate::waiting::Waiting;
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_core::Error;
use trainyard_core::event::AttemptOutcome;
use trainyard_runtime::executors::{Ended, Handle, State};

/// How long a Pod may be stuck before the attempt is ended.
pub(crate) const STUCK: Duration = Duration::from_secs(120);
/// How long a deleted Pod may remain: its grace period, and two minutes for a node that does not respond. Such a Pod
/// remains until its node comes back; its later writes are refused, since its attempt is no longer the current one.
pub(crate) const LEAVING: Duration = Duration::from_secs(crate::manifest::GRACE_SECONDS as u64 + 120);

/// State of the attempts that are polled.
#[derive(Default)]
pub(crate) struct Memory(BTreeMap<Handle, Note>);

/// State of one attempt.
#[derive(Default)]
struct Note {
    started: bool,
    stuck_since: Option<Duration>,
    leaving_since: Option<Duration>,
    /// Last specific reason from the node, before it only reported a back-off.
    said: Option<Waiting>,
    /// Outcome to report once all Pods are gone.
    verdict: Option<Ended>,
}

/// Result of judging one observation.
#[derive(Debug, PartialEq)]
pub(crate) struct Judged {
    /// State to report to the engine.
    pub state: State,
    /// Whether the caller must delete the Job.
    pub delete: bool,
}

impl Judged {
    fn state(state: State) -> Self {
        Self { state, delete: false }
    }
}

impl Memory {
    /// Judges a new observation; `now` is monotonic.
    pub fn judge(&mut self, handle: &Handle, sight: Sight, now: Duration) -> Judged {
        let note = self.0.entry(handle.clone()).or_default();
        let judged = note.judge(sight, now);
        if matches!(judged.state, State::Ended(_)) {
            self.0.remove(handle);
        }
        judged
    }
}

impl Note {
    fn judge(&mut self, sight: Sight, now: Duration) -> Judged {
        if !matches!(sight, Sight::Ends { .. }) {
            self.leaving_since = None;
        }
        match sight {
            Sight::Waits(waiting) => self.waits(waiting, now),
            Sight::NoPod => self.held("its Job has no Pod yet".into()),
            Sight::Suspended { why } => {
                if self.started {
                    let error = Error::lost("Kueue took its nodes away from the attempt");
                    self.verdict.get_or_insert_with(|| Ended::with(AttemptOutcome::Lost, error));
                }
                self.held(why)
            }
            Sight::Runs => {
                self.started = true;
                self.stuck_since = None;
                Judged { state: State::Started, delete: self.verdict.is_some() }
            }
            Sight::Ends { how } => {
                let since = *self.leaving_since.get_or_insert(now);
                let given_up = now.saturating_sub(since) >= LEAVING;
                Judged::state(if given_up { self.ended(*how) } else { State::Started })
            }
            Sight::Over(how) => Judged::state(self.ended(*how)),
        }
    }
    fn waits(&mut self, waiting: Waiting, now: Duration) -> Judged {
        let waiting = match &self.said {
            Some(said) if waiting.vague => said.clone(),
            _ => waiting,
        };
        self.said = Some(waiting.clone());
        match waiting.stuck {
            None => self.stuck_since = None,
            Some(error) => {
                let since = *self.stuck_since.get_or_insert(now);
                if now.saturating_sub(since) >= STUCK {
                    self.verdict.get_or_insert_with(|| Ended::with(AttemptOutcome::Failed, error));
                }
            }
        }
        self.held(waiting.why)
    }
    fn held(&self, why: String) -> Judged {
        Judged { state: State::Pending { why: Some(why) }, delete: self.verdict.is_some() }
    }
    fn ended(&mut self, how: Ended) -> State {
        State::Ended(self.verdict.take().unwrap_or(how))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::taken;
    use trainyard_core::ErrorKind;

    fn handle() -> Handle {
        Handle("j".into())
    }

    fn stuck(vague: bool) -> Sight {
        let why = if vague { "back-off" } else { "manifest unknown" };
        Sight::Waits(Waiting { why: why.into(), stuck: Some(Error::invalid(why)), vague })
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_stuck_attempt_is_ended_after_a_while_with_its_own_error() {
        let mut memory = Memory::default();
        assert!(!memory.judge(&handle(), stuck(false), seconds(1)).delete);
        let before = memory.judge(&handle(), stuck(true), seconds(120));
        assert_eq!(before, Judged::state(State::Pending { why: Some("manifest unknown".into()) }));
        assert!(memory.judge(&handle(), stuck(true), seconds(121)).delete);
        let ends = Sight::Ends { how: Box::new(taken("deleted")) };
        assert_eq!(memory.judge(&handle(), ends, seconds(123)), Judged::state(State::Started));
        let over = memory.judge(&handle(), Sight::Over(Box::new(taken("deleted"))), seconds(125));
        let State::Ended(ended) = over.state else { panic!("it is over") };
        assert_eq!(ended.error, Some(Error::invalid("manifest unknown")));
        assert!(memory.0.is_empty(), "what is over is forgotten");
    }

    #[test]
    fn an_attempt_that_comes_loose_gets_its_time_again() {
        let mut memory = Memory::default();
        memory.judge(&handle(), stuck(false), seconds(0));
        memory.judge(&handle(), Sight::Waits(Waiting::patiently("pulling")), seconds(100));
        assert!(!memory.judge(&handle(), stuck(false), seconds(130)).delete);
        assert!(memory.judge(&handle(), stuck(false), seconds(250)).delete);
    }

    #[test]
    fn a_registry_that_is_away_is_waited_for_although_the_node_becomes_vague() {
        let mut memory = Memory::default();
        memory.judge(&handle(), Sight::Waits(Waiting::patiently("i/o timeout")), seconds(0));
        for at in [10, 200, 400] {
            let judged = memory.judge(&handle(), stuck(true), seconds(at));
            assert_eq!(judged, Judged::state(State::Pending { why: Some("i/o timeout".into()) }));
        }
    }

    #[test]
    fn an_attempt_that_ran_and_is_suspended_is_lost() {
        let mut memory = Memory::default();
        let held = || Sight::Suspended { why: "it waits in Kueue's queue `team`".into() };
        assert!(!memory.judge(&handle(), held(), seconds(0)).delete);
        assert_eq!(memory.judge(&handle(), Sight::Runs, seconds(10)), Judged::state(State::Started));
        assert!(memory.judge(&handle(), held(), seconds(20)).delete);
        let over = memory.judge(&handle(), Sight::Over(Box::new(taken("deleted"))), seconds(30));
        let State::Ended(ended) = over.state else { panic!("it is over") };
        assert_eq!(ended.error.unwrap().message, "Kueue took its nodes away from the attempt");
    }

    #[test]
    fn a_node_that_does_not_answer_is_given_up() {
        let mut memory = Memory::default();
        let ends = || Sight::Ends { how: Box::new(taken("its Pod was deleted")) };
        assert_eq!(memory.judge(&handle(), ends(), seconds(5)), Judged::state(State::Started));
        assert_eq!(memory.judge(&handle(), ends(), seconds(154)), Judged::state(State::Started));
        let State::Ended(ended) = memory.judge(&handle(), ends(), seconds(155)).state else { panic!("it is over") };
        assert_eq!(ended.error.unwrap().kind, ErrorKind::Lost);
    }
}
