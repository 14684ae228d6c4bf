//! Reads the results of a recipe's checks from the manifests in this store under the recipe's digests.
//!
//! The digests are those of a run that would start now, so a recipe that has changed since its run has no result.

use trainyard_core::artifact::Manifest;
use trainyard_core::event::CheckResult;
use trainyard_core::metric::qualified_name;
use trainyard_core::{Comparison, Digest, Result};
use trainyard_engine::checks;
use trainyard_runtime::{RunContext, RunOptions};
use trainyard_spec::Plan;
use trainyard_spec::plan::PlanNode;
use trainyard_train::stages::report::numbers::number;

/// Checks of a recipe with their measured values.
pub struct Effects {
    /// Digest of the first stage with checks.
    pub digest: Digest,
    /// Checks that have a role, in the order of the plan.
    pub checks: Vec<CheckMeasurement>,
}

/// A check with its measured values.
pub struct CheckMeasurement {
    /// Role of the check.
    pub role: String,
    /// Name in messages, such as `kl` or `void.difference`.
    pub metric: String,
    /// Measured value; `None` if it is missing.
    pub value: Option<f64>,
    /// Lower bound of the check.
    pub min: Option<f64>,
    /// Upper bound of the check.
    pub max: Option<f64>,
    /// Whether the value is within the bounds.
    pub passed: bool,
    /// Values of both arms; `None` if the check is not on a comparison.
    pub arm_values: Option<ArmValues>,
}

/// Direction of a guard's interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardEffect {
    /// The whole interval is on the bad side of 0.
    Harm,
    /// The whole interval is on the good side of 0.
    Gain,
    /// The interval includes 0.
    Unclear,
}

/// Reads the effects of the checks with a role. Returns `None` if no stage has such checks, or one of the stages is not
/// in the store.
pub async fn effects(plan: &Plan, context: &RunContext) -> Result<Option<Effects>> {
    let mut found: Option<Effects> = None;
    let with_role = |node: &PlanNode| node.checks.iter().any(|c| c.role.is_some());
    for (stage, manifest) in manifests(plan, context, with_role).await? {
        let Some(manifest) = manifest else { return Ok(None) };
        let Some(node) = plan.nodes.iter().find(|n| n.key.0 == stage) else { return Ok(None) };
        let results = checks::evaluate(&node.checks, &manifest.metrics, &manifest.comparisons);
        let digest = manifest.stage_digest.clone();
        let all = found.get_or_insert_with(|| Effects { digest, checks: Vec::new() });
        let with_role = results.iter().filter(|r| r.role.is_some());
        all.checks.extend(with_role.map(|r| CheckMeasurement::of(r, &manifest.comparisons)));
    }
    Ok(found)
}

/// Reads the manifests of the selected stages under the digests that a run would have now, in the order of the plan.
/// The manifest is `None` for a stage that is not in the store.
pub async fn manifests(
    plan: &Plan,
    context: &RunContext,
    selects: impl Fn(&PlanNode) -> bool,
) -> Result<Vec<(String, Option<Manifest>)>> {
    let forecasts = trainyard_runtime::forecast(&RunOptions::default(), plan, context).await?;
    let mut found = Vec::new();
    for node in plan.nodes.iter().filter(|node| selects(node)) {
        let forecast = forecasts.iter().find(|f| f.stage == node.key);
        let manifest = match forecast.and_then(|f| f.digest.as_ref().zip(f.generation)) {
            Some((digest, generation)) => context.store.manifest_at(digest, generation).await?,
            None => None,
        };
        found.push((node.key.0.clone(), manifest));
    }
    Ok(found)
}

impl Effects {
    /// Returns whether every check passed.
    pub fn hold(&self) -> bool {
        self.checks.iter().all(|c| c.passed)
    }

    /// Returns one clause for each guard whose interval is on one side of 0, with harm first: ``harms `correct` by
    /// -0.11 [-0.2, -0.03]``.
    pub fn changes(&self) -> Vec<String> {
        let of = |change: GuardEffect, verb: &str| -> Vec<String> {
            let guards = self.checks.iter().filter(|c| c.change() == Some(change));
            guards.filter_map(|c| Some(format!("{verb} {}", c.arm_values.as_ref()?.change()?))).collect()
        };
        let mut changes = of(GuardEffect::Harm, "harms");
        changes.extend(of(GuardEffect::Gain, "improves"));
        changes.dedup();
        changes
    }
}

impl CheckMeasurement {
    fn of(check: &CheckResult, comparisons: &[Comparison]) -> Self {
        Self {
            role: check.role.clone().unwrap_or_default(),
            metric: qualified_name(&check.metric, check.of),
            value: check.value,
            min: check.min,
            max: check.max,
            passed: check.passed,
            arm_values: ArmValues::of(check, comparisons),
        }
    }

    /// Formats the bounds: `at most -0.001`.
    pub fn bound(&self) -> String {
        bound(self.min, self.max)
    }

    /// Returns the direction of a one-sided guard's interval. A lower bound means that the metric must not fall, an
    /// upper bound that it must not rise. Returns `None` for other checks.
    pub fn change(&self) -> Option<GuardEffect> {
        let (low, high) = self.arm_values.as_ref().filter(|_| self.role == "guard")?.interval?;
        let (bad, good) = match (self.min, self.max) {
            (Some(_), None) => (high < 0.0, low > 0.0),
            (None, Some(_)) => (low > 0.0, high < 0.0),
            _ => return None,
        };
        Some(if bad {
            GuardEffect::Harm
        } else if good {
            GuardEffect::Gain
        } else {
            GuardEffect::Unclear
        })
    }
}

/// Numbers of a `compare` stage that belong to one check.
pub struct ArmValues {
    /// Metric of both sides.
    pub subject: String,
    /// Value of the treatment.
    pub a: Option<f64>,
    /// Value of the baseline.
    pub b: Option<f64>,
    /// Treatment minus baseline.
    pub difference: Option<f64>,
    /// 95% interval of the difference.
    pub interval: Option<(f64, f64)>,
}

impl ArmValues {
    /// Finds the row of a check. Returns `None` if the check is not on a row of `comparisons`.
    fn of(check: &CheckResult, comparisons: &[Comparison]) -> Option<Self> {
        check.of?;
        let row = comparisons.iter().find(|row| row.metric == check.metric)?;
        let interval = row.low.zip(row.high);
        Some(Self { subject: row.metric.clone(), a: row.a, b: row.b, difference: row.difference, interval })
    }

    /// Formats `` `void` 0.31 → 0 ``, or only the treatment's value without a baseline.
    pub fn sides(&self) -> String {
        let treatment = value_text(self.a);
        match self.b {
            Some(b) => format!("`{}` {} → {treatment}", self.subject, rounded(b)),
            None => format!("`{}` {treatment}", self.subject),
        }
    }

    /// Formats the difference with its interval: `-0.11 [-0.2, -0.03]`. Returns `None` if the difference is missing.
    pub fn difference(&self) -> Option<String> {
        let difference = rounded(self.difference?);
        Some(match self.interval {
            Some((low, high)) => format!("{difference} [{}, {}]", rounded(low), rounded(high)),
            None => difference,
        })
    }

    fn change(&self) -> Option<String> {
        Some(format!("`{}` by {}", self.subject, self.difference()?))
    }
}

/// Formats bounds: `at most -0.001`.
pub fn bound(min: Option<f64>, max: Option<f64>) -> String {
    match (min, max) {
        (Some(min), Some(max)) if min == max => format!("exactly {min}"),
        (Some(min), Some(max)) => format!("from {min} to {max}"),
        (Some(min), None) => format!("at least {min}"),
        (None, Some(max)) => format!("at most {max}"),
        (None, None) => "reported".to_string(),
    }
}

/// Formats a number, or a dash for a missing one.
pub fn value_text(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_string(), rounded)
}

/// Formats a number. Means of equal numbers differ in the last bits, so tiny numbers are formatted as 0.
pub fn rounded(value: f64) -> String {
    number(if value.abs() < 1e-12 { 0.0 } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::ComparisonField;

    fn row(metric: &str, a: f64, b: f64, interval: Option<(f64, f64)>) -> Comparison {
        let (low, high) = interval.unzip();
        Comparison { a: Some(a), b: Some(b), difference: Some(a - b), low, high, ..Comparison::of(metric) }
    }

    fn check(
        role: &str,
        (metric, of): (&str, Option<ComparisonField>),
        (min, max): (Option<f64>, Option<f64>),
        value: Option<f64>,
        comparisons: &[Comparison],
    ) -> CheckMeasurement {
        let passed = value.is_some_and(|v| min.is_none_or(|m| v >= m) && max.is_none_or(|m| v <= m));
        let (metric, role) = (metric.to_string(), Some(role.to_string()));
        CheckMeasurement::of(&CheckResult { metric, of, value, min, max, gates: true, role, passed }, comparisons)
    }

    fn of_row(
        role: &str,
        row: &Comparison,
        of: ComparisonField,
        bounds: (Option<f64>, Option<f64>),
    ) -> CheckMeasurement {
        check(role, (&row.metric, Some(of)), bounds, row.get(of), std::slice::from_ref(row))
    }

    #[test]
    fn comparison_check_has_both_sides_and_the_interval() {
        let void = row("void", 0.0, 0.25, Some((-0.5, -0.125)));
        for (of, name) in [
            (ComparisonField::Difference, "void.difference"),
            (ComparisonField::High, "void.high"),
            (ComparisonField::A, "void.a"),
        ] {
            let check = of_row("mechanism", &void, of, (None, Some(-0.1)));
            assert_eq!((check.metric.as_str(), check.bound().as_str()), (name, "at most -0.1"));
            let sides = check.arm_values.unwrap();
            assert_eq!(sides.sides(), "`void` 0.25 → 0", "{name}");
            assert_eq!(sides.difference().unwrap(), "-0.25 [-0.5, -0.125]", "{name}");
        }
        let noise = row("spread", 0.5, 2e-16, None);
        let spread = of_row("mechanism", &noise, ComparisonField::A, (Some(0.1), None));
        assert_eq!(spread.arm_values.unwrap().sides(), "`spread` 0 → 0.5");
        let alone = Comparison { a: Some(7.0), ..Comparison::of("forks") };
        let forks = of_row("mechanism", &alone, ComparisonField::A, (None, Some(9.0)));
        assert_eq!((forks.arm_values.unwrap().sides(), forks.passed), ("`forks` 7".to_string(), true));
    }

    #[test]
    fn plain_metric_has_no_sides() {
        let bounds = (None, Some(1.0));
        let kl = check("mechanism", ("kl", None), bounds, Some(0.5), &[row("kl", 0.5, 0.25, None)]);
        assert!(kl.arm_values.is_none() && kl.passed);
        assert_eq!((kl.metric.as_str(), kl.value, kl.bound().as_str()), ("kl", Some(0.5), "at most 1"));
        let missing = check("mechanism", ("kl", Some(ComparisonField::Difference)), bounds, None, &[]);
        assert!(missing.arm_values.is_none() && !missing.passed);
        assert_eq!(missing.metric, "kl.difference");
    }

    /// Harm is reported even if the check passes.
    #[test]
    fn guard_with_interval_on_the_bad_side_is_harm() {
        let x = |low: f64, high: f64| Comparison {
            difference: Some((low + high) / 2.0),
            ..row("x", 1.0, 1.0, Some((low, high)))
        };
        let change = |role: &str, bounds, low, high| of_row(role, &x(low, high), ComparisonField::Low, bounds).change();
        let (must_not_fall, must_not_rise) = ((Some(-0.5), None), (None, Some(0.5)));
        assert_eq!(change("guard", must_not_fall, -0.2, -0.03), Some(GuardEffect::Harm));
        assert_eq!(change("guard", must_not_fall, 0.03, 0.2), Some(GuardEffect::Gain));
        assert_eq!(change("guard", must_not_fall, -0.2, 0.0), Some(GuardEffect::Unclear));
        assert_eq!(change("guard", must_not_rise, 0.03, 0.2), Some(GuardEffect::Harm));
        assert_eq!(change("guard", must_not_rise, -0.2, -0.03), Some(GuardEffect::Gain));
        assert_eq!(change("guard", (Some(0.0), Some(0.0)), 0.0, 0.0), None);
        assert_eq!(change("mechanism", must_not_fall, -0.2, -0.03), None);
        let checks = vec![of_row("guard", &x(-0.2, -0.03), ComparisonField::Low, must_not_fall)];
        let effects = Effects { digest: Digest::of(b""), checks };
        assert_eq!(effects.changes(), ["harms `x` by -0.115 [-0.2, -0.03]"]);
    }
}
