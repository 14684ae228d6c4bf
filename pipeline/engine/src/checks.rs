//! Evaluates checks against the metrics of a manifest.
//!
//! Checks gate the run, not the artifact: they are evaluated each time, on a cache hit as on a fresh result, and are
//! not part of the stage digest.

use std::collections::BTreeMap;
use trainyard_core::event::CheckResult;
use trainyard_core::{Comparison, Error, metric};
use trainyard_spec::plan::{CheckSeverity, MetricCheck};

/// Evaluates every check. A missing metric fails its check; bounds are inclusive.
pub fn evaluate(
    checks: &[MetricCheck],
    metrics: &BTreeMap<String, f64>,
    comparisons: &[Comparison],
) -> Vec<CheckResult> {
    let result_of = |check: &MetricCheck| {
        let value = metric::look_up(metrics, comparisons, &check.metric, check.of);
        let within = |v: f64| check.min.is_none_or(|m| v >= m) && check.max.is_none_or(|m| v <= m);
        CheckResult {
            metric: check.metric.clone(),
            of: check.of,
            value,
            min: check.min,
            max: check.max,
            gates: check.severity == CheckSeverity::Error && !check.pooled,
            role: check.role.clone(),
            passed: value.is_some_and(within),
        }
    };
    checks.iter().map(result_of).collect()
}

/// Describes a check in one line, with its role if it has one: `mechanism check failed: accuracy is 0.1, must be at
/// least 0.2`.
pub fn describe(check: &CheckResult) -> String {
    let bounds = match (check.min, check.max) {
        (Some(min), Some(max)) => format!("must be from {min} to {max}"),
        (Some(min), None) => format!("must be at least {min}"),
        (None, Some(max)) => format!("must be at most {max}"),
        (None, None) => "must be reported".to_string(),
    };
    let word = if check.gates || check.passed { "check" } else { "warning" };
    let role = check.role.as_ref().map(|role| format!("{role} ")).unwrap_or_default();
    let outcome = if check.passed { "holds" } else { "failed" };
    let name = metric::qualified_name(&check.metric, check.of);
    match check.value {
        Some(value) => format!("{role}{word} {outcome}: {name} is {value}, {bounds}"),
        None => format!("{role}{word} {outcome}: the manifest has no metric `{name}`, which {bounds}"),
    }
}

/// Returns the error of a stage whose gating checks failed; `None` if all of them passed.
pub fn gate(results: &[CheckResult]) -> Option<Error> {
    let failed: Vec<String> = results.iter().filter(|c| c.gates && !c.passed).map(describe).collect();
    let error =
        Error::data(failed.join("; ")).help("the artifact is kept; correct the bound or the stage, then run again");
    (!failed.is_empty()).then_some(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(metric: &str, min: Option<f64>, max: Option<f64>, severity: CheckSeverity) -> MetricCheck {
        MetricCheck { metric: metric.into(), of: None, min, max, severity, role: None, pooled: false }
    }

    #[test]
    fn bounds_are_inclusive_and_missing_metrics_fail() {
        let metrics = BTreeMap::from([("a".to_string(), 0.5)]);
        let checks = [
            check("a", Some(0.5), Some(0.5), CheckSeverity::Error),
            check("a", Some(0.6), None, CheckSeverity::Warn),
            check("b", None, Some(1.0), CheckSeverity::Error),
        ];
        let results = evaluate(&checks, &metrics, &[]);
        assert_eq!(results.iter().map(|r| r.passed).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(describe(&results[1]), "warning failed: a is 0.5, must be at least 0.6");
        let error = gate(&results).unwrap();
        assert_eq!(error.message, "check failed: the manifest has no metric `b`, which must be at most 1");
        assert!(gate(&results[..2]).is_none(), "a warning gates nothing");
    }

    #[test]
    fn every_failed_check_is_named_with_its_role() {
        let with_role = |role: &str, max: f64| MetricCheck {
            role: Some(role.into()),
            ..check("a", None, Some(max), CheckSeverity::Error)
        };
        let checks = [with_role("mechanism", 0.1), with_role("guard", 1.0), with_role("mechanism", 0.2)];
        let results = evaluate(&checks, &BTreeMap::from([("a".to_string(), 0.5)]), &[]);
        assert_eq!(describe(&results[1]), "guard check holds: a is 0.5, must be at most 1");
        let expected = "mechanism check failed: a is 0.5, must be at most 0.1; \
                        mechanism check failed: a is 0.5, must be at most 0.2";
        assert_eq!(gate(&results).unwrap().message, expected);
    }

    #[test]
    fn pooled_check_does_not_gate() {
        let pooled = MetricCheck { pooled: true, ..check("a", Some(0.6), None, CheckSeverity::Error) };
        let results = evaluate(&[pooled], &BTreeMap::from([("a".to_string(), 0.5)]), &[]);
        assert!(!results[0].passed && gate(&results).is_none());
    }

    #[test]
    fn nan_fails_every_bound() {
        let metrics = BTreeMap::from([("a".to_string(), f64::NAN)]);
        assert!(!evaluate(&[check("a", Some(0.0), None, CheckSeverity::Error)], &metrics, &[])[0].passed);
    }
}
