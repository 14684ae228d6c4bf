//! Reports each reason for waiting once, because executors repeat their reason at every poll, and some alternate
//! between reasons.

use std::time::Duration;

/// Minimum time between two reasons in the journal.
const PAUSE: Duration = Duration::from_secs(30);

/// Why an attempt waits now, and the last reported reason. Times are of the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct WaitReasonTracker {
    present: Option<String>,
    reported: Option<String>,
    at: Option<Duration>,
}

impl WaitReasonTracker {
    /// Sets the reason for waiting.
    pub fn set_reason(&mut self, why: impl Into<String>) {
        self.present = Some(why.into());
    }
    /// Ends the wait.
    pub fn clear(&mut self) {
        self.present = None;
    }
    /// Returns whether the attempt waits now.
    pub fn is_waiting(&self) -> bool {
        self.present.is_some()
    }
    /// Returns whether a report is due, now or later.
    pub fn has_pending_report(&self) -> bool {
        self.present != self.reported
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
    fn delayed_reason_is_reported_after_the_pause() {
        let mut waiting = WaitReasonTracker::default();
        waiting.set_reason("Priority");
        assert!(waiting.take_report(at(0)).is_some());
        waiting.set_reason("Resources");
        assert_eq!(waiting.take_report(at(29)), None);
        assert_eq!(waiting.take_report(at(30)), Some(Some("Resources".into())));
    }
}
