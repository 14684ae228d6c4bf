//! Judges a recipe over its pooled seeds.
//!
//! Checks of the roles `mechanism` and `sanity` must hold on every seed. Other checks are evaluated on the pooled rows.
//! Their interval ends are those of the two-sided 95% t interval over seeds; for premises and guards, the one-sided 95%
//! bounds are used.

use super::super::effects::bound;
use super::pooled::{PooledRow, rows};
use super::result::SeedResult;
use serde::Serialize;
use trainyard_core::metric::qualified_name;
use trainyard_core::{Comparison, ComparisonField};
use trainyard_spec::plan::MetricCheck;
use trainyard_spec::recipe::RecipeResult;
use trainyard_spec::{Plan, recipe};

/// Minimum number of held-out problems for judging an effect.
const MIN_PROBLEMS: u64 = 400;

/// Judgment over the seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeedJudgment {
    /// Result of the recipe; `None` if it cannot be judged, because the premise fails or the data are insufficient.
    pub result: Option<RecipeResult>,
    /// Reasons why the result is not `shown`.
    pub reasons: Vec<String>,
    /// Checks with a role, in the order of the plan.
    pub checks: Vec<JudgedCheck>,
    /// Pooled rows of all comparisons.
    pub rows: Vec<PooledRow>,
}

/// Result of a check on the pooled seeds, or on each seed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedCheck {
    /// Role of the check.
    pub role: String,
    /// Stage of the check.
    pub stage: String,
    /// Metric of the row.
    pub metric: String,
    /// Field of the row that the check compares.
    pub of: Option<ComparisonField>,
    /// Lower bound.
    pub min: Option<f64>,
    /// Upper bound.
    pub max: Option<f64>,
    /// Pooled value. For a check on each seed, the value that is nearest to failing, or furthest beyond the bounds.
    pub value: Option<f64>,
    /// Whether the value is within the bounds.
    pub passed: bool,
    /// Whether an interval is entirely on the harmful side.
    pub harms: bool,
}

impl JudgedCheck {
    /// Formats `effect check failed: effect: avg.low is -0.01, must be at least 0`.
    fn failure(&self) -> String {
        let value = self.value.map_or_else(|| "missing".to_string(), |v| format!("{v:.4}"));
        let name = qualified_name(&self.metric, self.of);
        let bound = bound(self.min, self.max);
        format!("{} check failed: {}: {name} is {value}, must be {bound}", self.role, self.stage)
    }

    /// Formats `low at least 0`.
    pub fn requirement_text(&self) -> String {
        let of = self.of.map(|of| format!("{} ", of.name())).unwrap_or_default();
        of + &bound(self.min, self.max)
    }
}

/// Judges all checks with a role, and derives the result of the recipe.
pub fn judge(plan: &Plan, results: &[SeedResult]) -> SeedJudgment {
    let rows = rows(results);
    let checks: Vec<JudgedCheck> = plan
        .nodes
        .iter()
        .flat_map(|node| node.checks.iter().map(move |check| (node.key.0.as_str(), check)))
        .filter_map(|(stage, check)| Some(judge_check(stage, check, check.role.as_deref()?, &rows, results)))
        .collect();
    let (result, reasons) = outcome(&checks, &rows, results.len());
    SeedJudgment { result, reasons, checks, rows }
}

fn judge_check(
    stage: &str,
    check: &MetricCheck,
    role: &str,
    rows: &[PooledRow],
    results: &[SeedResult],
) -> JudgedCheck {
    let row = rows.iter().find(|r| r.stage == stage && r.row.metric == check.metric);
    let within = |v: f64| check.min.is_none_or(|min| v >= min) && check.max.is_none_or(|max| v <= max);
    let value = if recipe::is_pooled(role) {
        row.and_then(|row| pooled_value(row, check.of?, role))
    } else {
        nearest(check, stage, results)
    };
    JudgedCheck {
        role: role.to_string(),
        stage: stage.to_string(),
        metric: check.metric.clone(),
        of: check.of,
        min: check.min,
        max: check.max,
        value,
        passed: value.is_some_and(within),
        harms: row.is_some_and(|row| harms(check, role, &row.row)),
    }
}

/// Returns the number of a pooled row that a check of this role compares.
fn pooled_value(row: &PooledRow, of: ComparisonField, role: &str) -> Option<f64> {
    match (of, role) {
        (ComparisonField::Low, "guard" | "premise") => row.one_sided.map(|bounds| bounds.0),
        (ComparisonField::High, "guard" | "premise") => row.one_sided.map(|bounds| bounds.1),
        _ => row.row.get(of),
    }
}

/// Returns the value of the seed that is nearest to failing a check, or furthest beyond its bounds. Returns `None` if
/// the value is missing for a seed.
fn nearest(check: &MetricCheck, stage: &str, results: &[SeedResult]) -> Option<f64> {
    let of = check.of?;
    let values: Vec<f64> =
        results.iter().map(|r| r.row(stage, &check.metric)?.row.get(of)).collect::<Option<Vec<f64>>>()?;
    let room = |v: &f64| {
        let below = check.min.map_or(f64::INFINITY, |min| v - min);
        let above = check.max.map_or(f64::INFINITY, |max| max - v);
        below.min(above)
    };
    values.into_iter().min_by(|a, b| room(a).total_cmp(&room(b)))
}

/// Returns whether the two-sided interval is entirely on the harmful side: of 0 for an effect, of the bound for a
/// guard.
fn harms(check: &MetricCheck, role: &str, row: &Comparison) -> bool {
    let Some((low, high)) = row.low.zip(row.high) else { return false };
    match (role, check.min, check.max) {
        ("effect", Some(_), None) => high < 0.0,
        ("effect", None, Some(_)) => low > 0.0,
        ("guard", Some(min), None) => high < min,
        ("guard", None, Some(max)) => low > max,
        _ => false,
    }
}

fn outcome(checks: &[JudgedCheck], rows: &[PooledRow], seeds: usize) -> (Option<RecipeResult>, Vec<String>) {
    let failures =
        |role: &str| checks.iter().filter(|c| c.role == role && !c.passed).map(JudgedCheck::failure).collect();
    if seeds < 2 {
        return (None, vec![format!("{seeds} seed gives no interval over seeds: name several with `--seeds`")]);
    }
    let few = checks.iter().filter(|c| c.role == "effect").find_map(|check| {
        let row = rows.iter().find(|r| r.stage == check.stage && r.row.metric == check.metric)?;
        row.row.n.filter(|n| *n < MIN_PROBLEMS)
    });
    if let Some(n) = few {
        return (None, vec![format!("the effect is measured on {n} problems, at least {MIN_PROBLEMS} are required")]);
    }
    let premise: Vec<String> = failures("premise");
    if !premise.is_empty() {
        return (None, premise);
    }
    let reasons: Vec<String> = ["mechanism", "effect", "placebo", "guard", "sanity"]
        .iter()
        .flat_map(|role| -> Vec<String> { failures(role) })
        .collect();
    let harm = checks
        .iter()
        .filter(|c| c.harms)
        .map(|c| format!("the interval of {} in {} is on the wrong side", c.metric, c.stage));
    let harm: Vec<String> = harm.collect();
    if !harm.is_empty() {
        return (Some(RecipeResult::Harm), harm.into_iter().chain(reasons).collect());
    }
    let result = if reasons.is_empty() { RecipeResult::Shown } else { RecipeResult::NotShown };
    (Some(result), reasons)
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
