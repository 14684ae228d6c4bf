//! What a recipe's checks came to, read from the manifests that this store holds under the recipe's own digests.
//!
//! The digests that a run would have now are forecast, so a recipe that changed since has no result.

use std::collections::BTreeMap;
use trainyard_core::event::CheckResult;
use trainyard_core::{Digest, Result};
use trainyard_engine::checks;
use trainyard_runtime::{RunContext, RunOptions};
use trainyard_spec::Plan;
use trainyard_spec::plan::Node;
use trainyard_train::stages::report::numbers::number;

/// The checks of a recipe with what was measured.
pub struct Effects {
    /// Of the stage that has the checks.
    pub digest: Digest,
    pub checks: Vec<Measured>,
}

/// One check and the numbers that belong to it.
pub struct Measured {
    pub role: String,
    /// As the check names it.
    pub metric: String,
    pub value: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub passed: bool,
    /// None if the metric is none of `compare`'s.
    pub sides: Option<Sides>,
}

/// What a guard's interval says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// All of it lies on the bad side of 0.
    Harm,
    /// All of it lies on the good side of 0.
    Gain,
    Unclear,
}

/// The effects of the checks with a role; none if one of their stages is not in the store.
pub async fn effects(plan: &Plan, world: &RunContext) -> Result<Option<Effects>> {
    let forecasts = trainyard_runtime::forecast(&RunOptions::default(), plan, world).await?;
    let mut found: Option<Effects> = None;
    for node in plan.nodes.iter().filter(|n| n.checks.iter().any(|c| c.role.is_some())) {
        let published =
            forecasts.iter().find(|f| f.stage == node.key).and_then(|f| f.digest.as_ref().zip(f.generation));
        let Some((digest, generation)) = published else { return Ok(None) };
        let Some(manifest) = world.store.manifest_at(digest, generation).await? else { return Ok(None) };
        let results = checks::evaluate(&node.checks, &manifest.metrics);
        let all = found.get_or_insert_with(|| Effects { digest: digest.clone(), checks: Vec::new() });
        let models = compared(node);
        let with_role = results.iter().filter(|r| r.role.is_some());
        all.checks.extend(with_role.map(|r| Measured::of(r, &manifest.metrics, models.as_deref())));
    }
    Ok(found)
}

impl Effects {
    pub fn hold(&self) -> bool {
        self.checks.iter().all(|c| c.passed)
    }

    /// One clause for each guard whose interval lies on one side of 0, harm first: ``harms `correct` by -0.11 [-0.2,
    /// -0.03]``.
    pub fn changes(&self) -> Vec<String> {
        let of = |change: Change, verb: &str| -> Vec<String> {
            let guards = self.checks.iter().filter(|c| c.change() == Some(change));
            guards.filter_map(|c| Some(format!("{verb} {}", c.sides.as_ref()?.change()?))).collect()
        };
        let mut changes = of(Change::Harm, "harms");
        changes.extend(of(Change::Gain, "improves"));
        changes.dedup();
        changes
    }
}

impl Measured {
    fn of(check: &CheckResult, metrics: &BTreeMap<String, f64>, models: Option<&str>) -> Self {
        Self {
            role: check.role.clone().unwrap_or_default(),
            metric: check.metric.clone(),
            value: check.value,
            min: check.min,
            max: check.max,
            passed: check.passed,
            sides: Sides::of(&check.metric, metrics, models),
        }
    }

    /// `at most -0.001`.
    pub fn bound(&self) -> String {
        match (self.min, self.max) {
            (Some(min), Some(max)) if min == max => format!("exactly {min}"),
            (Some(min), Some(max)) => format!("from {min} to {max}"),
            (Some(min), None) => format!("at least {min}"),
            (None, Some(max)) => format!("at most {max}"),
            (None, None) => "reported".to_string(),
        }
    }

    /// What a guard on one side says of its metric: a guard with a lower bound is about a metric that must not fall.
    /// None for other checks.
    pub fn change(&self) -> Option<Change> {
        let (low, high) = self.sides.as_ref().filter(|_| self.role == "guard")?.interval?;
        let (bad, good) = match (self.min, self.max) {
            (Some(_), None) => (high < 0.0, low > 0.0),
            (None, Some(_)) => (low > 0.0, high < 0.0),
            _ => return None,
        };
        Some(if bad {
            Change::Harm
        } else if good {
            Change::Gain
        } else {
            Change::Unclear
        })
    }
}

/// What a `compare` stage compares between two models.
fn compared(node: &Node) -> Option<String> {
    Some(node.config.as_literal()?.get("metric")?.as_str()?.to_string())
}

/// What `compare` calls its numbers of two models.
const OF_MODELS: [&str; 5] = ["a", "b", "difference", "difference_low", "difference_high"];

/// The numbers of a `compare` stage that belong to one check.
pub struct Sides {
    /// The metric that both sides have.
    pub subject: String,
    /// Of the treatment.
    pub a: Option<f64>,
    /// Of the baseline.
    pub b: Option<f64>,
    pub difference: Option<f64>,
    pub interval: Option<(f64, f64)>,
}

impl Sides {
    /// None if the metric is none of `compare`'s.
    fn of(metric: &str, metrics: &BTreeMap<String, f64>, models: Option<&str>) -> Option<Self> {
        let arms = |base: &&str| ["a", "b"].iter().any(|side| metrics.contains_key(&format!("{side}_{base}")));
        let prefixes = ["difference_low_", "difference_high_", "difference_", "a_", "b_"];
        let base = prefixes.into_iter().filter_map(|p| metric.strip_prefix(p)).find(arms);
        let of_models = OF_MODELS.contains(&metric) && metrics.contains_key("difference");
        let subject = match (base, models) {
            (Some(base), _) => base,
            (None, Some(name)) if of_models => name,
            _ => return None,
        };
        let get = |side: &str| metrics.get(&base.map_or_else(|| side.to_string(), |b| format!("{side}_{b}"))).copied();
        let interval = get("difference_low").zip(get("difference_high"));
        Some(Self { subject: subject.to_string(), a: get("a"), b: get("b"), difference: get("difference"), interval })
    }

    /// `` `void` 0.31 → 0 ``, or the treatment's value alone.
    pub fn sides(&self) -> String {
        let treatment = shown(self.a);
        match self.b {
            Some(b) => format!("`{}` {} → {treatment}", self.subject, rounded(b)),
            None => format!("`{}` {treatment}", self.subject),
        }
    }

    /// `-0.11 [-0.2, -0.03]`.
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

/// A number, or a dash where there is none.
pub fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_string(), rounded)
}

/// Means of equal numbers differ from them by the last bits, which are no effect.
fn rounded(value: f64) -> String {
    number(if value.abs() < 1e-12 { 0.0 } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(list: &[(&str, f64)]) -> BTreeMap<String, f64> {
        list.iter().map(|(name, value)| ((*name).to_string(), *value)).collect()
    }

    fn check(
        role: &str,
        metric: &str,
        bounds: (Option<f64>, Option<f64>),
        metrics: &BTreeMap<String, f64>,
    ) -> Measured {
        let value = metrics.get(metric).copied();
        let (min, max) = bounds;
        let passed = value.is_some_and(|v| min.is_none_or(|m| v >= m) && max.is_none_or(|m| v <= m));
        let role = Some(role.into());
        Measured::of(&CheckResult { metric: metric.into(), value, min, max, gates: true, role, passed }, metrics, None)
    }

    #[test]
    fn a_check_of_arms_has_both_sides_and_the_interval() {
        let m = metrics(&[
            ("b_void", 0.25),
            ("a_void", 0.0),
            ("difference_void", -0.25),
            ("difference_low_void", -0.5),
            ("difference_high_void", -0.125),
        ]);
        for name in ["difference_void", "difference_high_void", "a_void"] {
            let sides = check("mechanism", name, (None, Some(-0.1)), &m).sides.unwrap();
            assert_eq!(sides.sides(), "`void` 0.25 → 0", "{name}");
            assert_eq!(sides.difference().unwrap(), "-0.25 [-0.5, -0.125]", "{name}");
        }
        let noise = metrics(&[("b_spread", 2e-16), ("a_spread", 0.5)]);
        assert_eq!(
            check("mechanism", "a_spread", (Some(0.1), None), &noise).sides.unwrap().sides(),
            "`spread` 0 → 0.5"
        );
        let alone = metrics(&[("a_forks", 7.0)]);
        let forks = check("mechanism", "a_forks", (None, Some(9.0)), &alone);
        assert_eq!((forks.sides.unwrap().sides(), forks.passed), ("`forks` 7".to_string(), true));
    }

    #[test]
    fn a_check_of_models_is_called_after_their_metric() {
        let m = metrics(&[
            ("a", 0.5),
            ("b", 0.75),
            ("difference", -0.25),
            ("difference_low", -0.5),
            ("difference_high", 0.0),
        ]);
        let sides = Sides::of("difference_low", &m, Some("accuracy")).unwrap();
        assert_eq!(sides.sides(), "`accuracy` 0.75 → 0.5");
        assert_eq!(sides.difference().unwrap(), "-0.25 [-0.5, 0]");
    }

    #[test]
    fn any_other_metric_has_no_sides() {
        let m = metrics(&[("kl", 0.5)]);
        let kl = check("mechanism", "kl", (None, Some(1.0)), &m);
        assert!(kl.sides.is_none() && kl.passed);
        assert_eq!((kl.value, kl.bound()), (Some(0.5), "at most 1".to_string()));
        let missing = check("mechanism", "difference_kl", (None, Some(1.0)), &m);
        assert!(missing.sides.is_none() && !missing.passed);
    }

    /// Harm is written as harm, even where the bound lets it pass.
    #[test]
    fn a_guard_whose_interval_lies_on_the_bad_side_harms() {
        let m = |low: f64, high: f64| {
            metrics(&[
                ("a_x", 1.0),
                ("b_x", 1.0),
                ("difference_x", (low + high) / 2.0),
                ("difference_low_x", low),
                ("difference_high_x", high),
            ])
        };
        let change = |role: &str, bounds, low, high| check(role, "difference_low_x", bounds, &m(low, high)).change();
        let (must_not_fall, must_not_rise) = ((Some(-0.5), None), (None, Some(0.5)));
        assert_eq!(change("guard", must_not_fall, -0.2, -0.03), Some(Change::Harm));
        assert_eq!(change("guard", must_not_fall, 0.03, 0.2), Some(Change::Gain));
        assert_eq!(change("guard", must_not_fall, -0.2, 0.0), Some(Change::Unclear));
        assert_eq!(change("guard", must_not_rise, 0.03, 0.2), Some(Change::Harm));
        assert_eq!(change("guard", must_not_rise, -0.2, -0.03), Some(Change::Gain));
        assert_eq!(change("guard", (Some(0.0), Some(0.0)), 0.0, 0.0), None);
        assert_eq!(change("mechanism", must_not_fall, -0.2, -0.03), None);
        let checks = vec![check("guard", "difference_low_x", must_not_fall, &m(-0.2, -0.03))];
        let effects = Effects { digest: Digest::of(b""), checks };
        assert_eq!(effects.changes(), ["harms `x` by -0.115 [-0.2, -0.03]"]);
    }
}
