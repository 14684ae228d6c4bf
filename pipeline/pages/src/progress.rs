//! Texts of the progress of a stage.

use crate::text;
use serde::Serialize;
use trainyard_core::progress::ProgressRecord;

/// Progress of a stage in words; unknown parts are empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProgressText {
    /// Units done, as in `120 of 400 steps`.
    pub step: String,
    /// Share of the units that are done, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Units per second, as in `12.5 steps/s`.
    pub rate: String,
    /// Time left, as in `3m05s`.
    pub left: String,
    /// Main metric, as in `loss 0.4312`.
    pub metric: String,
}

impl ProgressText {
    /// Describes a progress record.
    pub fn of(record: &ProgressRecord) -> Self {
        let unit = text::cut(&record.unit, 40).0;
        let done = text::count(record.done);
        #[expect(clippy::cast_precision_loss, reason = "a share is shown")]
        let share = (record.total > 0).then(|| (record.done as f64 / record.total as f64).clamp(0.0, 1.0));
        Self {
            step: match record.total {
                0 => format!("{done} {unit}"),
                total => format!("{done} of {} {unit}", text::count(total)),
            },
            share,
            rate: record.rate.map(|rate| format!("{} {unit}/s", text::number(rate))).unwrap_or_default(),
            left: record.seconds_left.map(text::seconds).unwrap_or_default(),
            metric: record.metric.as_ref().map(|m| metric(&m.name, m.value)).unwrap_or_default(),
        }
    }
}

/// Formats a metric with its name.
pub fn metric(name: &str, value: f64) -> String {
    format!("{} {}", text::cut(name, 80).0, text::number(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::progress::ProgressMetric;

    #[test]
    fn unknown_parts_are_empty() {
        let mut record = ProgressRecord {
            format: 1,
            at: 0,
            done: 1_200,
            total: 4_000,
            unit: "steps".into(),
            rate: Some(12.5),
            seconds_left: Some(224.0),
            metric: Some(ProgressMetric { name: "loss".into(), value: 0.43119 }),
        };
        let text = ProgressText::of(&record);
        assert_eq!((text.step.as_str(), text.share), ("1,200 of 4,000 steps", Some(0.3)));
        assert_eq!((text.rate, text.left, text.metric), ("12.5 steps/s".into(), "3m44s".into(), "loss 0.4312".into()));
        (record.total, record.rate, record.seconds_left, record.metric) = (0, None, None, None);
        record.unit = "\u{202e}rows".into();
        let text = ProgressText::of(&record);
        assert_eq!(text, ProgressText { step: "1,200 \\u{202e}rows".into(), ..ProgressText::default() });
    }
}
