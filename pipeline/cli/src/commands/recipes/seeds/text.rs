//! Formats the outcome of a recipe's seeds for terminals.

use super::judge::{JudgedCheck, SeedJudgment};
use super::result::SeedResult;
use crate::commands::recipes::effects::rounded;
use crate::commands::recipes::loaded_recipe::LoadedRecipe;
use crate::output::human::table;

/// Formats the checks with their pooled values, the measured and the declared result, and the reasons against the
/// claim.
pub fn outcome(recipe: &LoadedRecipe, results: &[SeedResult], judgment: &SeedJudgment) -> String {
    let seeds: Vec<String> = results.iter().map(|r| r.seed.to_string()).collect();
    let rows: Vec<Vec<String>> = judgment.checks.iter().map(|check| row(check, judgment)).collect();
    let heads = ["role", "stage", "metric", "baseline", "treatment", "difference", "required", "holds"];
    let found = judgment.result.map_or("nothing", |result| result.name());
    let declared = recipe.recipe.result.map_or("nothing", |result| result.name());
    let mut text = format!("{} on seeds {}\n{}\n", recipe.name, seeds.join(", "), table(&heads, &rows));
    text.push_str(&format!("result: {found}, declared: {declared}"));
    for reason in &judgment.reasons {
        text.push_str(&format!("\n  {reason}"));
    }
    text
}

fn row(check: &JudgedCheck, judgment: &SeedJudgment) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_string(), rounded);
    let pooled = judgment.rows.iter().find(|r| r.stage == check.stage && r.row.metric == check.metric);
    let cells = match pooled.map(|r| &r.row) {
        Some(row) => {
            let interval = row.low.zip(row.high).map(|(low, high)| format!(" [{}, {}]", rounded(low), rounded(high)));
            [number(row.b), number(row.a), number(row.difference) + &interval.unwrap_or_default()]
        }
        None => [number(None), number(check.value), number(None)],
    };
    let [baseline, treatment, difference] = cells;
    let holds = if check.passed { "yes" } else { "no" };
    let texts = [&check.role, &check.stage, &check.metric].map(String::clone);
    texts.into_iter().chain([baseline, treatment, difference, check.requirement_text(), holds.to_string()]).collect()
}
