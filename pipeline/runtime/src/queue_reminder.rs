//! Decides when to tell viewers for what a run waits in which no stage has a machine or waits for one.

use std::time::Duration;
use trainyard_core::StageKey;
use trainyard_engine::fold::{RunView, StageStatus, StageView};

/// Time between two reminders.
const REMIND_INTERVAL: Duration = Duration::from_secs(30);
/// Time between two looks at the stages, and how long a run must wait before the first reminder.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum number of stages in one reminder.
const NAMED: usize = 3;

/// Time of the last look, start of the wait, and time of the last reminder, by the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct QueueReminder {
    looked: Option<Duration>,
    since: Option<Duration>,
    told: Option<Duration>,
}

impl QueueReminder {
    /// Returns the stages to tell about now, with the reasons why they wait. Attempts that wait for a machine are
    /// reported by their supervisors.
    pub fn take_due(&mut self, view: &RunView, now: Duration) -> Vec<(StageKey, String)> {
        if self.looked.is_some_and(|at| now.saturating_sub(at) < LOOK) {
            return Vec::new();
        }
        self.looked = Some(now);
        let queued: Vec<&StageView> = view.stages.iter().filter(|s| s.status == StageStatus::Queued).collect();
        if queued.is_empty() || view.stages.iter().any(|stage| is_busy(stage.status)) {
            (self.since, self.told) = (None, None);
            return Vec::new();
        }
        let since = *self.since.get_or_insert(now);
        let is_due = match self.told {
            None => now.saturating_sub(since) >= LOOK,
            Some(at) => now.saturating_sub(at) >= REMIND_INTERVAL,
        };
        if !is_due {
            return Vec::new();
        }
        self.told = Some(now);
        let one = |stage: &&StageView| (stage.key().clone(), stage.why.clone().unwrap_or_default());
        queued.iter().take(NAMED).map(one).collect()
    }
}

fn is_busy(status: StageStatus) -> bool {
    matches!(status, StageStatus::Running | StageStatus::Waiting | StageStatus::Publishing | StageStatus::Retrying)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::event::{Event, EventRecord};

    fn apply(view: &mut RunView, event: Event) {
        view.apply(&EventRecord { at: 0, event });
    }
    fn queued(view: &mut RunView, stage: &str, why: &str) {
        apply(view, Event::Queued { stage: StageKey(stage.into()), why: why.into() });
    }

    #[test]
    fn queued_run_is_told_after_a_second_and_every_half_minute() {
        let (mut view, mut reminder) = (RunView::default(), QueueReminder::default());
        queued(&mut view, "a", "needs 2 CPUs");
        let mut told = Vec::new();
        for half in 0..140u64 {
            let due = reminder.take_due(&view, Duration::from_millis(500 * half));
            told.extend(due.into_iter().map(|(stage, why)| (half / 2, stage.0, why)));
        }
        let at = |second| (second, "a".to_string(), "needs 2 CPUs".to_string());
        assert_eq!(told, [at(1), at(31), at(61)]);
    }

    #[test]
    fn run_with_work_in_progress_is_not_told() {
        let (mut view, mut reminder) = (RunView::default(), QueueReminder::default());
        for stage in ["a", "b", "c", "d", "e"] {
            queued(&mut view, stage, "full");
        }
        let waiting = Event::AttemptWaiting { stage: StageKey("e".into()), attempt: 1, why: "Priority".into() };
        apply(&mut view, waiting);
        let mut told = |view: &RunView, second| reminder.take_due(view, Duration::from_secs(second)).len();
        assert_eq!((told(&view, 0), told(&view, 40)), (0, 0), "the attempt's supervisor tells");
        queued(&mut view, "e", "full");
        assert_eq!((told(&view, 41), told(&view, 43), told(&view, 44)), (0, NAMED, 0));
    }
}
