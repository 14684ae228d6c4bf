//! Reports each reason for waiting once to the journal, because executors repeat their reason at every poll, and some
//! alternate between reasons. Viewers of the run are reminded of it every 30 s.

use std::time::Duration;

/// Minimum time between two reasons in the journal, and the time between two reminders.
const PAUSE: Duration = Duration::from_secs(30);

/// Why an attempt waits now, and the last reported reason. Times are of the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct WaitReasonTracker {
    present: Option<String>,
    reported: Option<String>,
    at: Option<Duration>,
    reminded: Option<Duration>,
}

impl WaitReasonTracker {
    /// Sets the reason for waiting.
    pub fn set_reason(&mut self, why: impl Into<String>) {
        self.present = Some(why.into());
    }
    /// Ends the wait.
    pub fn clear(&mut self) {
        self.present = None;
        self.reminded = None;
    }
    /// Returns whether the attempt waits now.
    pub fn is_waiting(&self) -> bool {
        self.present.is_some()
    }
    /// Returns whether a report is due, now or later.
    pub fn has_pending_report(&self) -> bool {
        self.present != self.reported
    }
    /// Returns the reason to tell viewers now: at the start of the wait, and every [`PAUSE`] after it.
    pub fn take_reminder(&mut self, now: Duration) -> Option<String> {
        let why = self.present.as_ref()?;
        if self.reminded.is_some_and(|at| now.saturating_sub(at) < PAUSE) {
            return None;
        }
        self.reminded = Some(now);
        Some(why.clone())
    }
    /// Returns how long no reminder is due; `None` unless the attempt waits.
    pub fn until_reminder(&self, now: Duration) -> Option<Duration> {
        self.present.as_ref()?;
        Some(self.reminded.map_or(Duration::ZERO, |at| (at + PAUSE).saturating_sub(now)))
    }
    /// Returns the report that is due now: a reason, or `None` for the end of the wait.
    pub fn take_report(&mut self, now: Duration) -> Option<Option<String>> {
        let too_soon = self.at.is_some_and(|at| now.saturating_sub(at) < PAUSE);
        if self.present == self.reported || (self.present.is_some() && too_soon) {
            return None;
        }
        if self.present.is_some() {
            self.at = Some(now);
        }
        self.reported.clone_from(&self.present);
        Some(self.reported.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn reason_is_reported_once_and_its_end_immediately() {
        let mut waiting = WaitReasonTracker::default();
        assert_eq!(waiting.take_report(at(0)), None, "it never waited");
        waiting.set_reason("Priority");
        assert_eq!(waiting.take_report(at(1)), Some(Some("Priority".into())));
        waiting.set_reason("Priority");
        assert_eq!(waiting.take_report(at(500)), None);
        waiting.clear();
        assert_eq!(waiting.take_report(at(501)), Some(None));
        assert_eq!(waiting.take_report(at(502)), None);
    }

    #[test]
    fn alternating_reasons_are_rate_limited() {
        let mut waiting = WaitReasonTracker::default();
        let mut reported = Vec::new();
        for second in 0..100 {
            waiting.set_reason(if second % 2 == 0 { "Priority" } else { "Resources" });
            reported.extend(waiting.take_report(at(second)).map(|_| second));
        }
        assert_eq!(reported, [0, 31, 62, 93]);
    }

    #[test]
    fn wait_is_told_at_its_start_and_every_half_minute() {
        let mut waiting = WaitReasonTracker::default();
        assert_eq!((waiting.take_reminder(at(0)), waiting.until_reminder(at(0))), (None, None), "it does not wait");
        let mut told = Vec::new();
        for second in 5..100 {
            waiting.set_reason(if second < 50 { "Priority" } else { "Resources" });
            told.extend(waiting.take_reminder(at(second)).map(|why| (second, why)));
        }
        let why = |second, why: &str| (second, why.to_string());
        assert_eq!(told, [why(5, "Priority"), why(35, "Priority"), why(65, "Resources"), why(95, "Resources")]);
        assert_eq!(waiting.until_reminder(at(100)), Some(at(25)));
        waiting.clear();
        assert_eq!(waiting.take_reminder(at(200)), None);
        waiting.set_reason("Requeued");
        assert_eq!(waiting.take_reminder(at(201)), Some("Requeued".into()), "a new wait");
    }

    #[test]
    fn delayed_reason_is_reported_after_the_pause() {
        let mut waiting = WaitReasonTracker::default();
        waiting.set_reason("Priority");
        assert!(waiting.take_report(at(0)).is_some());
        waiting.set_reason("Resources");
        assert_eq!(waiting.take_report(at(29)), None);
        assert_eq!(waiting.take_report(at(30)), Some(Some("Resources".into())));
    }
}
