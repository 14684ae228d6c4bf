//! What a recipe's checks came to, read from the manifests that this store holds under the recipe's own digests.
//!
//! Why so: a table of effects must not be typed, and must not show the numbers of another version. The digests that a
//! run would have now are forecast, so a recipe that changed since has no result. Refuses: running anything.

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
    /// One for each check.
    pub lines: Vec<String>,
    /// All of them hold.
    pub hold: bool,
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
        let results: Vec<&CheckResult> = results.iter().filter(|r| r.role.is_some()).collect();
        let all = found.get_or_insert_with(|| Effects { digest: digest.clone(), lines: Vec::new(), hold: true });
        all.lines.extend(results.iter().map(|r| line(r, &manifest.metrics, compared(node).as_deref())));
        all.hold &= results.iter().all(|r| r.passed);
    }
    Ok(found)
}

/// What a `compare` stage compares between two models.
fn compared(node: &Node) -> Option<String> {
    Some(node.config.as_literal()?.get("metric")?.as_str()?.to_string())
}

/// `mechanism: `void` 0.31 → 0, difference -0.31 [-0.36, -0.27]; asked: `difference_void` at most -0.001`.
fn line(check: &CheckResult, metrics: &BTreeMap<String, f64>, models: Option<&str>) -> String {
    let measured = match Sides::of(&check.metric, metrics, models) {
        Some(sides) => sides.text(),
        None => check.value.map_or_else(
            || format!("`{}` was not measured", check.metric),
            |v| format!("`{}` {}", check.metric, number(v)),
        ),
    };
    let bound = match (check.min, check.max) {
        (Some(min), Some(max)) => format!("from {min} to {max}"),
        (Some(min), None) => format!("at least {min}"),
        (None, Some(max)) => format!("at most {max}"),
        (None, None) => "there".to_string(),
    };
    let verdict = if check.passed { "" } else { " (does not hold)" };
    format!("{}: {measured}; asked: `{}` {bound}{verdict}", check.role.as_deref().unwrap_or("check"), check.metric)
}

/// What `compare` calls its numbers of two models.
const OF_MODELS: [&str; 5] = ["a", "b", "difference", "difference_low", "difference_high"];

/// The numbers of a `compare` stage that belong to one check.
struct Sides {
    subject: String,
    a: Option<f64>,
    b: Option<f64>,
    difference: Option<f64>,
    interval: Option<(f64, f64)>,
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

    fn text(&self) -> String {
        let shown = |value: Option<f64>| value.map_or_else(|| "none".to_string(), number);
        let mut text = format!("`{}` {} → {}", self.subject, shown(self.b), shown(self.a));
        if let Some(difference) = self.difference {
            text.push_str(&format!(", difference {}", number(difference)));
        }
        if let Some((low, high)) = self.interval {
            text.push_str(&format!(" [{}, {}]", number(low), number(high)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(list: &[(&str, f64)]) -> BTreeMap<String, f64> {
        list.iter().map(|(name, value)| ((*name).to_string(), *value)).collect()
    }

    fn check(metric: &str, max: f64, metrics: &BTreeMap<String, f64>) -> CheckResult {
        let value = metrics.get(metric).copied();
        CheckResult {
            metric: metric.into(),
            value,
            min: None,
            max: Some(max),
            gates: true,
            role: Some("mechanism".into()),
            passed: value.is_some_and(|v| v <= max),
        }
    }

    #[test]
    fn a_check_of_arms_shows_both_sides_and_the_interval() {
        let m = metrics(&[
            ("b_void", 0.25),
            ("a_void", 0.0),
            ("difference_void", -0.25),
            ("difference_low_void", -0.5),
            ("difference_high_void", -0.125),
        ]);
        let text = "mechanism: `void` 0.25 → 0, difference -0.25 [-0.5, -0.125]; asked:";
        assert_eq!(
            line(&check("difference_void", -0.1, &m), &m, None),
            format!("{text} `difference_void` at most -0.1")
        );
        let high = line(&check("difference_high_void", -0.2, &m), &m, None);
        assert_eq!(high, format!("{text} `difference_high_void` at most -0.2 (does not hold)"));
        let alone = metrics(&[("a_forks", 7.0)]);
        assert_eq!(
            line(&check("a_forks", 9.0, &alone), &alone, None),
            "mechanism: `forks` none → 7; asked: `a_forks` at most 9"
        );
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
        let text = line(&check("difference_low", 0.0, &m), &m, Some("accuracy"));
        assert_eq!(
            text,
            "mechanism: `accuracy` 0.75 → 0.5, difference -0.25 [-0.5, 0]; asked: `difference_low` at most 0"
        );
    }

    #[test]
    fn any_other_metric_is_one_number() {
        let m = metrics(&[("kl", 0.5)]);
        assert_eq!(line(&check("kl", 1.0, &m), &m, None), "mechanism: `kl` 0.5; asked: `kl` at most 1");
        let missing = line(&check("difference_kl", 1.0, &m), &m, None);
        assert_eq!(
            missing,
            "mechanism: `difference_kl` was not measured; asked: `difference_kl` at most 1 (does not hold)"
        );
    }
}
