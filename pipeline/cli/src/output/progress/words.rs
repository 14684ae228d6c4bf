//! Formats texts of a running workflow: the progress of a stage, and the result of a check.

use crate::output::metrics::number;
use std::time::Duration;
use trainyard_core::event::CheckResult;
use trainyard_core::metric::qualified_name;
use trainyard_core::progress::ProgressRecord;
use trainyard_core::units::format_duration;

/// Formats progress as `120/400 steps  12.5 steps/s  22.4s left  loss 0.4312`. Unknown parts are left out.
pub fn progress_text(progress: &ProgressRecord) -> String {
    let ProgressRecord { done, total, unit, .. } = progress;
    let mut text = if *total > 0 { format!("{done}/{total} {unit}") } else { format!("{done} {unit}") };
    if let Some(rate) = progress.rate {
        let rate = if rate >= 100.0 { format!("{rate:.0}") } else { format!("{rate:.1}") };
        text.push_str(&format!("  {rate} {unit}/s"));
    }
    if let Some(left) = progress.seconds_left.and_then(|left| Duration::try_from_secs_f64(left).ok()) {
        text.push_str(&format!("  {} left", format_duration(left)));
    }
    if let Some(metric) = &progress.metric {
        text.push_str(&format!("  {} {}", metric.name, number(metric.value)));
    }
    text
}

/// Formats the result of a check: `mechanism check failed: void is 0.25, must be at most 0`.
pub fn check_text(check: &CheckResult) -> String {
    let value = check.value.map_or_else(|| "missing".to_string(), exact);
    let bound = match (check.min, check.max) {
        (Some(min), Some(max)) if check.passed => format!("from {min} to {max}"),
        (Some(min), max) if max.is_none() || check.value.is_none_or(|v| v < min) => format!("at least {min}"),
        (_, Some(max)) => format!("at most {max}"),
        _ => "a value".into(),
    };
    let grade = match (check.passed, check.gates) {
        (true, _) => "check holds",
        (false, true) => "check failed",
        (false, false) => "warning",
    };
    let role = check.role.as_ref().map(|role| format!("{role} ")).unwrap_or_default();
    format!("{role}{grade}: {} is {value}, must be {bound}", qualified_name(&check.metric, check.of))
}

/// Formats a value with four decimals, since readers compare it with bounds.
fn exact(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value}") } else { format!("{value:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::ComparisonField;
    use trainyard_core::progress::ProgressMetric;

    #[test]
    fn progress_shows_rate_time_left_and_metric() {
        let mut progress = ProgressRecord {
            format: 1,
            at: 0,
            done: 120,
            total: 400,
            unit: "steps".into(),
            rate: Some(10.0),
            seconds_left: Some(28.0),
            metric: Some(ProgressMetric { name: "loss".into(), value: 0.43 }),
        };
        assert_eq!(progress_text(&progress), "120/400 steps  10.0 steps/s  28.0s left  loss 0.430");
        (progress.total, progress.rate, progress.seconds_left, progress.metric) = (0, None, None, None);
        assert_eq!(progress_text(&progress), "120 steps");
    }

    #[test]
    fn check_text_has_role_value_and_bound() {
        let check = |value: Option<f64>, min: Option<f64>, max: Option<f64>, passed: bool| CheckResult {
            metric: "void".into(),
            of: None,
            value,
            min,
            max,
            gates: true,
            role: Some("mechanism".into()),
            passed,
        };
        assert_eq!(
            check_text(&check(Some(0.25), None, Some(0.0), false)),
            "mechanism check failed: void is 0.2500, must be at most 0"
        );
        assert_eq!(
            check_text(&check(Some(0.0), Some(0.0), None, true)),
            "mechanism check holds: void is 0, must be at least 0"
        );
        assert_eq!(
            check_text(&check(Some(1.0), Some(0.0), Some(2.0), true)),
            "mechanism check holds: void is 1, must be from 0 to 2"
        );
        let plain = CheckResult { role: None, ..check(None, Some(1.0), None, false) };
        assert_eq!(check_text(&plain), "check failed: void is missing, must be at least 1");
        let compared = CheckResult { of: Some(ComparisonField::Low), ..plain };
        assert_eq!(check_text(&compared), "check failed: void.low is missing, must be at least 1");
    }
}
