//! What a recipe's checks came to, read from the manifests that this store holds under the recipe's own digests. A
//! table of effects must not show the numbers of another version: the digests are forecast, so a recipe that changed
//! since has no result.

use trainyard_core::event::CheckResult;
use trainyard_core::metric::address;
use trainyard_core::{Comparison, Digest, Result};
use trainyard_engine::checks;
use trainyard_runtime::{RunOptions, World};
use trainyard_spec::Plan;
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
pub async fn effects(plan: &Plan, world: &World) -> Result<Option<Effects>> {
    let forecasts = trainyard_runtime::forecast(&RunOptions::default(), plan, world).await?;
    let mut found: Option<Effects> = None;
    for node in plan.nodes.iter().filter(|n| n.checks.iter().any(|c| c.role.is_some())) {
        let published =
            forecasts.iter().find(|f| f.stage == node.key).and_then(|f| f.digest.as_ref().zip(f.generation));
        let Some((digest, generation)) = published else { return Ok(None) };
        let Some(manifest) = world.store.manifest_at(digest, generation).await? else { return Ok(None) };
        let results = checks::evaluate(&node.checks, &manifest.metrics, &manifest.comparisons);
        let results: Vec<&CheckResult> = results.iter().filter(|r| r.role.is_some()).collect();
        let all = found.get_or_insert_with(|| Effects { digest: digest.clone(), lines: Vec::new(), hold: true });
        all.lines.extend(results.iter().map(|r| line(r, &manifest.comparisons)));
        all.hold &= results.iter().all(|r| r.passed);
    }
    Ok(found)
}

/// `mechanism: `void` 0.31 → 0, difference -0.31 [-0.36, -0.27]; asked: `void.difference` at most -0.001`.
fn line(check: &CheckResult, comparisons: &[Comparison]) -> String {
    let name = address(&check.metric, check.of);
    let compared = check.of.and_then(|_| comparisons.iter().find(|row| row.metric == check.metric));
    let measured = match (compared, check.value) {
        (Some(row), _) => sides(row),
        (None, Some(value)) => format!("`{name}` {}", number(value)),
        (None, None) => format!("`{name}` was not measured"),
    };
    let bound = match (check.min, check.max) {
        (Some(min), Some(max)) => format!("from {min} to {max}"),
        (Some(min), None) => format!("at least {min}"),
        (None, Some(max)) => format!("at most {max}"),
        (None, None) => "there".to_string(),
    };
    let verdict = if check.passed { "" } else { " (does not hold)" };
    format!("{}: {measured}; asked: `{name}` {bound}{verdict}", check.role.as_deref().unwrap_or("check"))
}

/// Both sides of a comparison, with the difference and its interval.
fn sides(row: &Comparison) -> String {
    let shown = |value: Option<f64>| value.map_or_else(|| "none".to_string(), number);
    let mut text = format!("`{}` {} → {}", row.metric, shown(row.b), shown(row.a));
    if let Some(difference) = row.difference {
        text.push_str(&format!(", difference {}", number(difference)));
    }
    if let Some((low, high)) = row.low.zip(row.high) {
        text.push_str(&format!(" [{}, {}]", number(low), number(high)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::Of;

    fn row(metric: &str, a: f64, b: f64, interval: Option<(f64, f64)>) -> Comparison {
        let (low, high) = interval.unzip();
        Comparison { a: Some(a), b: Some(b), difference: Some(a - b), low, high, ..Comparison::of(metric) }
    }

    fn check(metric: &str, of: Option<Of>, max: f64, value: Option<f64>) -> CheckResult {
        CheckResult {
            metric: metric.into(),
            of,
            value,
            min: None,
            max: Some(max),
            gates: true,
            role: Some("mechanism".into()),
            passed: value.is_some_and(|v| v <= max),
        }
    }

    fn of_row(row: &Comparison, of: Of, max: f64) -> String {
        line(&check(&row.metric, Some(of), max, row.get(of)), std::slice::from_ref(row))
    }

    #[test]
    fn a_check_of_a_comparison_shows_both_sides_and_the_interval() {
        let void = row("void", 0.0, 0.25, Some((-0.5, -0.125)));
        let text = "mechanism: `void` 0.25 → 0, difference -0.25 [-0.5, -0.125]; asked:";
        assert_eq!(of_row(&void, Of::Difference, -0.1), format!("{text} `void.difference` at most -0.1"));
        let high = of_row(&void, Of::High, -0.2);
        assert_eq!(high, format!("{text} `void.high` at most -0.2 (does not hold)"));
        let alone = Comparison { a: Some(7.0), ..Comparison::of("forks") };
        assert_eq!(of_row(&alone, Of::A, 9.0), "mechanism: `forks` none → 7; asked: `forks.a` at most 9");
    }

    #[test]
    fn a_check_of_models_has_the_same_form() {
        let text = of_row(&row("accuracy", 0.5, 0.75, Some((-0.5, 0.0))), Of::Low, 0.0);
        assert_eq!(
            text,
            "mechanism: `accuracy` 0.75 → 0.5, difference -0.25 [-0.5, 0]; asked: `accuracy.low` at most 0"
        );
    }

    #[test]
    fn any_other_metric_is_one_number() {
        assert_eq!(line(&check("kl", None, 1.0, Some(0.5)), &[]), "mechanism: `kl` 0.5; asked: `kl` at most 1");
        let missing = line(&check("kl", Some(Of::Difference), 1.0, None), &[]);
        assert_eq!(
            missing,
            "mechanism: `kl.difference` was not measured; asked: `kl.difference` at most 1 (does not hold)"
        );
    }
}
