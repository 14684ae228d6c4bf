//! Defines the progress of a running attempt as every viewer shows it, and measures its rate and the time left.

use crate::attempt::AttemptMessage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Minimum interval between two writes of an attempt's progress.
pub const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// Last progress of an attempt: `progress.json` in its folder, overwritten each time. No decision depends on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressRecord {
    /// Format version: 1.
    pub format: u32,
    /// Time of the report in milliseconds since 1970-01-01 UTC, by the clock of the writing process.
    pub at: i64,
    /// Units done.
    pub done: u64,
    /// Total units; 0 = unknown.
    pub total: u64,
    /// Unit that is counted: `steps`, `rows`, `problems`.
    pub unit: String,
    /// Units per second since the first report of this unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Seconds until all units are done, at this rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<f64>,
    /// Main metric of the stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<ProgressMetric>,
}

/// Metric of a progress report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressMetric {
    /// Name of the metric.
    pub name: String,
    /// Last value of the metric.
    pub value: f64,
}

/// Measures rates from the progress reports of one attempt.
#[derive(Debug, Clone, Default)]
pub struct ProgressMeter {
    /// First report of the present unit. A resumed stage has a separate rate, and so does each part of a stage
    /// (rollouts, then steps).
    origin: Option<ProgressOrigin>,
}

#[derive(Debug, Clone)]
struct ProgressOrigin {
    unit: String,
    total: u64,
    done: u64,
    at: Duration,
}

impl ProgressMeter {
    /// Returns the record of a progress message; `None` for other messages. `now` is the monotonic time, and `at` the
    /// time in Unix milliseconds.
    pub fn measure(&mut self, message: &AttemptMessage, now: Duration, at: i64) -> Option<ProgressRecord> {
        let AttemptMessage::Progress { done, total, unit, metric } = message else { return None };
        let (done, total) = (*done, *total);
        let same = |origin: &ProgressOrigin| origin.unit == *unit && origin.total == total && origin.done <= done;
        let origin = self.origin.take().filter(same);
        let origin = origin.unwrap_or_else(|| ProgressOrigin { unit: unit.clone(), total, done, at: now });
        let (since, seconds) = (done.saturating_sub(origin.done), now.saturating_sub(origin.at).as_secs_f64());
        self.origin = Some(origin);
        let rate = (since > 0 && seconds > 0.0).then(|| since as f64 / seconds);
        let finite = metric.as_ref().filter(|(_, value)| value.is_finite());
        Some(ProgressRecord {
            format: 1,
            at,
            done,
            total,
            unit: unit.clone(),
            rate,
            seconds_left: rate.filter(|_| total > done).map(|rate| (total - done) as f64 / rate),
            metric: finite.map(|(name, value)| ProgressMetric { name: name.clone(), value: *value }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(done: u64, metric: Option<f64>) -> AttemptMessage {
        let metric = metric.map(|value| ("loss".to_string(), value));
        AttemptMessage::Progress { done, total: 400, unit: "steps".into(), metric }
    }

    #[test]
    fn rate_and_time_left_count_from_the_first_report() {
        let mut meter = ProgressMeter::default();
        let first = meter.measure(&steps(20, Some(0.5)), Duration::from_secs(7), 1_000).unwrap();
        assert_eq!((first.done, first.rate, first.seconds_left), (20, None, None));
        let later = meter.measure(&steps(120, Some(0.4)), Duration::from_secs(17), 11_000).unwrap();
        assert_eq!((later.at, later.rate, later.seconds_left), (11_000, Some(10.0), Some(28.0)));
        assert_eq!(later.metric, Some(ProgressMetric { name: "loss".into(), value: 0.4 }));
        let end = meter.measure(&steps(400, None), Duration::from_secs(47), 0).unwrap();
        assert_eq!((end.rate, end.seconds_left, end.metric), (Some(9.5), None, None));
    }

    #[test]
    fn each_unit_has_its_own_rate() {
        let mut meter = ProgressMeter::default();
        meter.measure(&steps(0, None), Duration::ZERO, 0).unwrap();
        let rows = |done| AttemptMessage::Progress { done, total: 0, unit: "rows".into(), metric: None };
        assert_eq!(meter.measure(&rows(50), Duration::from_secs(10), 0).unwrap().rate, None);
        let next = meter.measure(&rows(60), Duration::from_secs(15), 0).unwrap();
        assert_eq!((next.rate, next.seconds_left), (Some(2.0), None), "the total is unknown");
        let again = meter.measure(&rows(5), Duration::from_secs(16), 0).unwrap();
        assert_eq!(again.rate, None, "the attempt began again");
    }

    #[test]
    fn other_messages_and_values_that_are_not_numbers_are_left_out() {
        let mut meter = ProgressMeter::default();
        assert_eq!(meter.measure(&AttemptMessage::Checkpoint { step: 3 }, Duration::ZERO, 0), None);
        assert_eq!(meter.measure(&steps(1, Some(f64::NAN)), Duration::ZERO, 0).unwrap().metric, None);
    }
}
