use super::super::result::SeedRow;
use super::*;
use trainyard_core::Digest;
use trainyard_spec::plan::CheckSeverity;

fn check(role: &str, metric: &str, of: ComparisonField, min: Option<f64>, max: Option<f64>) -> MetricCheck {
    let role = Some(role.to_string());
    MetricCheck { metric: metric.into(), of: Some(of), min, max, severity: CheckSeverity::Error, role, pooled: true }
}

/// Returns three seeds of a method that gains; the baseline learns, and the placebo does not change.
fn seeds(gains: [f64; 3], moved: f64) -> Vec<SeedResult> {
    let seed = |(i, gain): (usize, &f64)| {
        let row = |stage: &str, difference: f64| SeedRow {
            stage: stage.into(),
            row: Comparison {
                a: Some(0.5 + difference),
                b: Some(0.5),
                difference: Some(difference),
                n: Some(400),
                ..Comparison::of("avg")
            },
            differences: vec![(difference, 400)],
        };
        let noise = 0.01 * (i as f64 - 1.0);
        let rows = vec![
            row("moves", moved),
            row("learned", 0.2 + noise),
            row("effect", *gain),
            row("placebo", noise),
            row("half", -0.01 + noise),
        ];
        SeedResult { format: 1, recipe: "r".into(), seed: i as u64, plan: Digest::of(b"p"), rows }
    };
    gains.iter().enumerate().map(seed).collect()
}

/// Judges results by the checks that most recipes have.
fn outcome_of(results: &[SeedResult]) -> (Option<RecipeResult>, Vec<String>) {
    let requirements = [
        ("moves", check("mechanism", "avg", ComparisonField::Difference, Some(0.05), None)),
        ("learned", check("premise", "avg", ComparisonField::Difference, Some(0.1), None)),
        ("effect", check("effect", "avg", ComparisonField::Low, Some(0.0), None)),
        ("placebo", check("placebo", "avg", ComparisonField::Low, None, Some(0.0))),
        ("half", check("guard", "avg", ComparisonField::Low, Some(-0.03), None)),
    ];
    let rows = rows(results);
    let judged: Vec<JudgedCheck> = requirements
        .iter()
        .map(|(stage, check)| judge_check(stage, check, check.role.as_deref().unwrap(), &rows, results))
        .collect();
    outcome(&judged, &rows, results.len())
}

#[test]
fn consistent_gain_is_shown_and_noisy_gain_is_not() {
    assert_eq!(outcome_of(&seeds([0.1, 0.12, 0.14], 0.1)), (Some(RecipeResult::Shown), vec![]));
    let (result, reasons) = outcome_of(&seeds([0.1, -0.02, 0.3], 0.1));
    assert_eq!(result, Some(RecipeResult::NotShown));
    assert!(reasons[0].starts_with("effect check failed: effect: avg.low is -0."), "{reasons:?}");
}

#[test]
fn mechanism_must_hold_on_every_seed() {
    let mut results = seeds([0.1, 0.12, 0.14], 0.1);
    results[1].rows[0].row.difference = Some(0.0);
    let (result, reasons) = outcome_of(&results);
    assert_eq!(result, Some(RecipeResult::NotShown));
    assert_eq!(reasons, ["mechanism check failed: moves: avg.difference is 0.0000, must be at least 0.05"]);
}

#[test]
fn failed_premise_gives_no_result() {
    let mut results = seeds([0.1, 0.12, 0.14], 0.1);
    results.iter_mut().for_each(|r| r.rows[1].row.difference = Some(0.05));
    let (result, reasons) = outcome_of(&results);
    assert_eq!(result, None);
    assert!(reasons[0].contains("premise check failed: learned: avg.difference is 0.0500"), "{reasons:?}");
    assert!(outcome_of(&seeds([0.1; 3], 0.1)[..1]).1[0].contains("1 seed gives no interval"));
    let mut few = seeds([0.1, 0.12, 0.14], 0.1);
    few[2].rows[2].row.n = Some(399);
    assert!(outcome_of(&few).1[0].contains("399 problems, at least 400"));
}

#[test]
fn consistent_loss_is_harm() {
    assert_eq!(outcome_of(&seeds([-0.1, -0.12, -0.14], 0.1)).0, Some(RecipeResult::Harm));
    let mut results = seeds([0.1, 0.12, 0.14], 0.1);
    results.iter_mut().for_each(|r| r.rows[4].row.difference = r.rows[4].row.difference.map(|d| d - 0.1));
    assert_eq!(outcome_of(&results).0, Some(RecipeResult::Harm), "of a guard");
}

#[test]
fn guards_have_one_sided_bounds() {
    // Mean −0.01, deviation 0.012: one-sided 95% bound −0.0302, two-sided −0.0398.
    let mut results = seeds([0.1, 0.12, 0.14], 0.1);
    for (r, d) in results.iter_mut().zip([-0.022, -0.01, 0.002]) {
        r.rows[4].row.difference = Some(d);
    }
    let guard = |min: f64| {
        let check = check("guard", "avg", ComparisonField::Low, Some(min), None);
        judge_check("half", &check, "guard", &rows(&results), &results)
    };
    assert!(guard(-0.031).passed && !guard(-0.030).passed, "{:?}", guard(-0.03).value);
}
