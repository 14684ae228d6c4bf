//! Decides when and how forcefully to stop an attempt that is followed in the store. The decisions are pure: all times
//! come from the caller's monotonic clock.
//!
//! An attempt is silent while reads of the store return promptly and find an unchanged heartbeat. It is not silent
//! while the store does not respond, or while the executor reports that the attempt waits.

use crate::executors::{AttemptState, Control};
use std::time::Duration;
use trainyard_core::attempt::FIRST_HEARTBEAT;

/// Silence after which an attempt that sent heartbeats is lost. A live attempt sends one every 10 s.
pub(super) const SILENCE: Duration = Duration::from_secs(180);
/// Duration of a read after which the store counts as unavailable.
const SLOW: Duration = Duration::from_secs(5);
/// Time between the timeout and the kill of the attempt, which has enforced the timeout itself by then.
const TIMEOUT_GRACE: Duration = Duration::from_secs(60);
/// Time between the request in the store, the cancel by the executor, and the kill.
const CANCEL_GRACE: Duration = Duration::from_secs(30);
/// How long to wait for the end of a killed attempt.
const KILL_GRACE: Duration = Duration::from_secs(60);
/// How long an attempt may continue to run after it has left its result.
const RESULT_GRACE: Duration = Duration::from_secs(30);

/// Why an attempt is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptStopReason {
    /// The engine requested the stop.
    Cancelled,
    /// The timeout has passed.
    TimedOut,
    /// The attempt got no machine within this time.
    Waited { limit: Duration },
    /// No heartbeat was observed for this time.
    Silent { after: Duration },
}

/// Action that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeadlineAction {
    /// Request the end of the attempt in the store.
    Request { timed_out: bool },
    /// Request the end of the attempt from the executor.
    Stop(Control),
    /// Stop waiting for the executor to report the end.
    GiveUp,
}

#[derive(Debug)]
pub(super) struct Deadlines {
    timeout: Option<Duration>,
    /// How long the attempt may wait for its machine, counted from `submitted`.
    wait: Option<Duration>,
    /// Silence before the first heartbeat after which the attempt is lost.
    first_beat: Duration,
    submitted: Duration,
    /// When the attempt was first observed running.
    started: Option<Duration>,
    /// Whether the executor reports that the attempt waits, or has not reported anything yet.
    waits: bool,
    /// Counter of the last heartbeat.
    beat: Option<u64>,
    /// Start of the current silence: time of the last new heartbeat, or of the last observation that does not count as
    /// silence (a pending attempt, a slow read of the store, a failed read).
    sign: Duration,
    stop: Option<PendingStop>,
    /// When a result or a failure was first found.
    outcome_found_at: Option<Duration>,
}

#[derive(Debug)]
struct PendingStop {
    why: AttemptStopReason,
    since: Duration,
    /// Kill at once.
    hard: bool,
    requested: bool,
    /// Control last requested from the executor.
    last_control: Control,
    killed: Option<Duration>,
}

impl Deadlines {
    pub fn new(now: Duration, timeout: Option<Duration>) -> Self {
        let (started, beat, stop, outcome_found_at) = (None, None, None, None);
        let (wait, first_beat) = (None, FIRST_HEARTBEAT);
        Self {
            timeout,
            wait,
            first_beat,
            submitted: now,
            started,
            waits: true,
            beat,
            sign: now,
            stop,
            outcome_found_at,
        }
    }
    /// Limits how long the attempt may wait for its machine.
    pub fn waiting_at_most(self, wait: Option<Duration>) -> Self {
        Self { wait, ..self }
    }
    /// Sets how long the attempt may be silent before its first heartbeat.
    pub fn first_beat_within(self, first_beat: Duration) -> Self {
        Self { first_beat, ..self }
    }
    /// Returns why the attempt is being stopped, if it is.
    pub fn why(&self) -> Option<AttemptStopReason> {
        self.stop.as_ref().map(|stop| stop.why)
    }
    /// Returns the counter of the last heartbeat.
    pub fn last_beat(&self) -> Option<u64> {
        self.beat
    }
    /// Records a state reported by the executor.
    pub fn state(&mut self, now: Duration, state: &AttemptState) {
        let waits = matches!(state, AttemptState::Pending { .. });
        if waits || self.waits {
            self.sign = now;
        }
        self.waits = waits;
        if !waits {
            self.started.get_or_insert(now);
        }
    }
    /// Records a control requested by the engine.
    pub fn record_control(&mut self, now: Duration, control: Control) {
        if control > Control::Run {
            self.stop(AttemptStopReason::Cancelled, now, control == Control::Kill);
        }
    }
    /// Records a successful read that began at `requested_at`, and the counter of the heartbeat that it found; `None`
    /// if the attempt has stored no heartbeat. Stops an attempt that has been silent for too long.
    pub fn beats(&mut self, requested_at: Duration, now: Duration, beat: Option<u64>) {
        if beat.is_some() && beat != self.beat {
            self.beat = beat;
            self.sign = now;
            self.started.get_or_insert(now);
        } else if self.waits || now.saturating_sub(requested_at) >= SLOW {
            self.sign = now;
        } else {
            let after = if self.beat.is_some() { SILENCE } else { self.first_beat };
            if requested_at.saturating_sub(self.sign) >= after {
                self.stop(AttemptStopReason::Silent { after }, now, true);
            }
        }
    }
    /// Records a failed read.
    pub fn record_failed_read(&mut self, now: Duration) {
        self.sign = now;
    }
    /// Records that the attempt has left its result or failure.
    pub fn record_outcome(&mut self, now: Duration) {
        self.outcome_found_at.get_or_insert(now);
    }

    /// Returns the action due now, and marks it as done.
    pub fn due(&mut self, now: Duration) -> Option<DeadlineAction> {
        if let (Some(timeout), Some(started), None) = (self.timeout, self.started, &self.stop)
            && now.saturating_sub(started) >= timeout.saturating_add(TIMEOUT_GRACE)
        {
            self.stop(AttemptStopReason::TimedOut, now, true);
        }
        if let (Some(limit), None, None) = (self.wait, self.started, &self.stop)
            && now.saturating_sub(self.submitted) >= limit
        {
            self.stop(AttemptStopReason::Waited { limit }, now, true);
        }
        if self.outcome_found_at.is_some_and(|at| now.saturating_sub(at) >= RESULT_GRACE) {
            return Some(DeadlineAction::GiveUp);
        }
        let waits = self.waits;
        let stop = self.stop.as_mut()?;
        if !stop.requested {
            stop.requested = true;
            return Some(DeadlineAction::Request { timed_out: stop.why == AttemptStopReason::TimedOut });
        }
        let control = stop.needed_control(now, waits);
        if control > stop.last_control {
            stop.last_control = control;
            stop.killed = (control == Control::Kill).then_some(now);
            return Some(DeadlineAction::Stop(control));
        }
        let given_up = stop.killed.is_some_and(|at| now.saturating_sub(at) >= KILL_GRACE);
        given_up.then_some(DeadlineAction::GiveUp)
    }

    fn stop(&mut self, why: AttemptStopReason, now: Duration, hard: bool) {
        let stop = self.stop.get_or_insert(PendingStop {
            why,
            since: now,
            hard,
            requested: false,
            last_control: Control::Run,
            killed: None,
        });
        stop.hard |= hard;
    }
}

impl PendingStop {
    /// Returns how hard to stop the attempt. An attempt that still waits for a machine cannot end by itself.
    fn needed_control(&self, now: Duration, waits: bool) -> Control {
        let elapsed = now.saturating_sub(self.since);
        if self.hard || elapsed >= 2 * CANCEL_GRACE {
            Control::Kill
        } else if waits || elapsed >= CANCEL_GRACE {
            Control::Cancel
        } else {
            Control::Run
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }
    fn running(timeout: Option<Duration>) -> Deadlines {
        let mut deadlines = Deadlines::new(at(0), timeout);
        deadlines.state(at(0), &AttemptState::Started);
        deadlines
    }
    /// Returns the actions that are due, second by second.
    fn course(deadlines: &mut Deadlines, from: u64, to: u64) -> Vec<(u64, DeadlineAction)> {
        let mut seen = Vec::new();
        for second in from..to {
            while let Some(due) = deadlines.due(at(second)) {
                seen.push((second, due));
                if due == DeadlineAction::GiveUp {
                    return seen;
                }
            }
        }
        seen
    }

    #[test]
    fn cancel_escalates_from_request_to_kill_to_give_up() {
        let mut deadlines = running(None);
        deadlines.record_control(at(100), Control::Cancel);
        let expected = [
            (100, DeadlineAction::Request { timed_out: false }),
            (130, DeadlineAction::Stop(Control::Cancel)),
            (160, DeadlineAction::Stop(Control::Kill)),
            (220, DeadlineAction::GiveUp),
        ];
        assert_eq!(course(&mut deadlines, 100, 400), expected);
        assert_eq!(deadlines.why(), Some(AttemptStopReason::Cancelled));
    }

    #[test]
    fn pending_attempt_is_cancelled_immediately() {
        let mut waiting = Deadlines::new(at(0), None);
        waiting.state(at(0), &AttemptState::Pending { why: None });
        waiting.record_control(at(5), Control::Cancel);
        let first = course(&mut waiting, 5, 6);
        assert_eq!(
            first,
            [(5, DeadlineAction::Request { timed_out: false }), (5, DeadlineAction::Stop(Control::Cancel))]
        );
        waiting.record_control(at(7), Control::Kill);
        assert_eq!(course(&mut waiting, 7, 8), [(7, DeadlineAction::Stop(Control::Kill))]);
    }

    #[test]
    fn timeout_is_enforced_after_its_grace_period() {
        let mut deadlines = running(Some(at(100)));
        let expected = [
            (160, DeadlineAction::Request { timed_out: true }),
            (160, DeadlineAction::Stop(Control::Kill)),
            (220, DeadlineAction::GiveUp),
        ];
        assert_eq!(course(&mut deadlines, 0, 400), expected);
        let mut waiting = Deadlines::new(at(0), Some(at(100)));
        waiting.state(at(0), &AttemptState::Pending { why: None });
        assert_eq!(course(&mut waiting, 0, 10_000), [], "the wait does not count");
    }

    /// Returns the second at which the attempt counts as silent, with reads every 5 s that take `takes` seconds and
    /// find the heartbeat `beat`.
    fn silent(deadlines: &mut Deadlines, takes: u64, beat: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        (0..4_000).step_by(5).find(|second| {
            deadlines.beats(at(*second), at(second + takes), beat(*second));
            matches!(deadlines.why(), Some(AttemptStopReason::Silent { .. }))
        })
    }

    #[test]
    fn wait_limit_applies_until_the_start() {
        let mut waiting = Deadlines::new(at(0), None).waiting_at_most(Some(at(20)));
        waiting.state(at(0), &AttemptState::Pending { why: None });
        let expected = [
            (20, DeadlineAction::Request { timed_out: false }),
            (20, DeadlineAction::Stop(Control::Kill)),
            (80, DeadlineAction::GiveUp),
        ];
        assert_eq!(course(&mut waiting, 0, 400), expected);
        assert_eq!(waiting.why(), Some(AttemptStopReason::Waited { limit: at(20) }));
        let mut started = Deadlines::new(at(0), None).waiting_at_most(Some(at(20)));
        started.state(at(19), &AttemptState::Started);
        assert_eq!(course(&mut started, 0, 400), []);
    }

    #[test]
    fn attempt_without_heartbeats_is_silent() {
        assert_eq!(silent(&mut running(None), 0, |_| None), Some(600), "before its first beat");
        let mut patient = running(None).first_beat_within(at(1_800));
        assert_eq!(silent(&mut patient, 0, |_| None), Some(1_800), "a pool whose attempts start slowly");
        let mut beating = running(None).first_beat_within(at(1_800));
        assert_eq!(silent(&mut beating, 0, |at| Some((at / 10).min(50))), Some(500 + 180), "no patience after it");
        assert_eq!(silent(&mut running(None), 0, |at| Some((at / 10).min(50))), Some(500 + 180));
        assert_eq!(silent(&mut running(None), 0, |at| Some(at / 10)), None);
        let again = |at: u64| Some(if at < 1_000 { at / 10 } else { (at - 1_000) / 10 });
        assert_eq!(silent(&mut running(None), 0, again), None, "it was started again and counts from 1");
    }

    #[test]
    fn pending_or_unreadable_attempt_is_not_silent() {
        let mut waiting = Deadlines::new(at(0), None);
        waiting.state(at(0), &AttemptState::Pending { why: None });
        assert_eq!(silent(&mut waiting, 0, |_| Some(1)), None);
        waiting.state(at(4_000), &AttemptState::Started);
        waiting.beats(at(4_005), at(4_005), Some(1));
        assert_eq!(waiting.why(), None, "the time begins with its start");
        assert_eq!(silent(&mut running(None), 5, |_| Some(1)), None, "slow looks");
        let mut away = running(None);
        away.beats(at(0), at(0), Some(1));
        for second in (0..1_000).step_by(5) {
            away.record_failed_read(at(second));
        }
        away.beats(at(1_000), at(1_000), Some(1));
        assert_eq!(away.why(), None, "failed looks");
        away.beats(at(1_180), at(1_180), Some(1));
        assert_eq!(away.why(), Some(AttemptStopReason::Silent { after: SILENCE }));
    }

    #[test]
    fn attempt_with_a_result_is_given_up_after_a_grace_period() {
        let mut deadlines = running(None);
        deadlines.record_outcome(at(10));
        deadlines.record_outcome(at(15));
        assert_eq!(course(&mut deadlines, 10, 100), [(40, DeadlineAction::GiveUp)]);
    }
}
