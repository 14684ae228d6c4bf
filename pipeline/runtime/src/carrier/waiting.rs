//! Reports each reason for waiting once: executors repeat their reason at every poll, and some alternate between
//! reasons.

use std::time::Duration;

/// Minimum time between two reasons in the journal.
const PAUSE: Duration = Duration::from_secs(30);

/// Why an attempt waits now, and the last reported reason. Times are of the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    present: Option<String>,
    told: Option<String>,
    at: Option<Duration>,
}

impl Waiting {
    /// Sets the reason for waiting.
    pub fn because(&mut self, why: impl Into<String>) {
        self.present = Some(why.into());
    }
    /// Ends the wait.
    pub fn over(&mut self) {
        self.present = None;
    }
    /// Returns whether the attempt waits now.
    pub fn is_waiting(&self) -> bool {
        self.present.is_some()
    }
    /// Returns whether a report is due, now or later.
    pub fn is_owed(&self) -> bool {
        self.present != self.told
    }
    /// Returns the report that is due now: a reason, or `None` for the end of the wait.
    pub fn news(&mut self, now: Duration) -> Option<Option<String>> {
        let soon = self.at.is_some_and(|at| now.saturating_sub(at) < PAUSE);
        if self.present == self.told || (self.present.is_some() && soon) {
            return None;
        }
        if self.present.is_some() {
            self.at = Some(now);
        }
        self.told.clone_from(&self.present);
        Some(self.told.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_reason_is_told_once_and_its_end_at_once() {
        let mut waiting = Waiting::default();
        assert_eq!(waiting.news(at(0)), None, "it never waited");
        waiting.because("Priority");
        assert_eq!(waiting.news(at(1)), Some(Some("Priority".into())));
        waiting.because("Priority");
        assert_eq!(waiting.news(at(500)), None);
        waiting.over();
        assert_eq!(waiting.news(at(501)), Some(None));
        assert_eq!(waiting.news(at(502)), None);
    }

    #[test]
    fn reasons_that_take_turns_are_told_every_half_minute() {
        let mut waiting = Waiting::default();
        let mut told = Vec::new();
        for second in 0..100 {
            waiting.because(if second % 2 == 0 { "Priority" } else { "Resources" });
            told.extend(waiting.news(at(second)).map(|_| second));
        }
        assert_eq!(told, [0, 31, 62, 93]);
    }

    #[test]
    fn a_reason_that_stays_is_told_once_its_time_has_come() {
        let mut waiting = Waiting::default();
        waiting.because("Priority");
        assert!(waiting.news(at(0)).is_some());
        waiting.because("Resources");
        assert_eq!(waiting.news(at(29)), None);
        assert_eq!(waiting.news(at(30)), Some(Some("Resources".into())));
    }
}
