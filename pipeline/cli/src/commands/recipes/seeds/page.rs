//! Formats the part of a system's page that comes from its result files: the result, the numbers of each seed, and the
//! pooled checks.

use super::judge::{JudgedCheck, SeedJudgment};
use super::pooled::PooledRow;
use super::result::SeedResult;
use crate::commands::recipes::effects::{rounded, value_text};
use crate::commands::recipes::loaded_recipe::LoadedRecipe;
use std::fmt::Write as _;
use trainyard_core::Comparison;
use trainyard_spec::recipe::RecipeResult;

/// Returns the words for a result.
pub fn word(result: Option<RecipeResult>) -> &'static str {
    match result {
        Some(RecipeResult::Shown) => "shown",
        Some(RecipeResult::NotShown) => "not shown",
        Some(RecipeResult::Harm) => "harm",
        None => "not judged",
    }
}

/// Writes the claim, the result, and the numbers of all seeds to `text`.
pub fn write(found: &LoadedRecipe, results: &[SeedResult], judgment: &SeedJudgment, text: &mut String) {
    let recipe = &found.recipe;
    let _ = write!(text, "\n## Claim\n\n{}\n\nWorld: {}.\n\n## Result\n\n", recipe.claim, recipe.world);
    if results.is_empty() {
        text.push_str("Not run.\n");
        return;
    }
    let seeds: Vec<String> = results.iter().map(|r| r.seed.to_string()).collect();
    let _ = writeln!(text, "**{}** on seeds {}.", capital(word(judgment.result)), seeds.join(", "));
    if judgment.result != recipe.result {
        let _ = writeln!(text, "\nThe recipe declares **{}**.", word(recipe.result));
    }
    for reason in &judgment.reasons {
        let _ = writeln!(text, "- {reason}");
    }
    by_seed(results, judgment, text);
    pooled(judgment, text);
    if !recipe.tried.is_empty() {
        text.push_str("\n## Tried before\n\n");
        for line in &recipe.tried {
            let _ = writeln!(text, "- {line}");
        }
    }
}

fn by_seed(results: &[SeedResult], judgment: &SeedJudgment, text: &mut String) {
    let columns = checked_rows(judgment);
    let heads: Vec<String> = columns.iter().map(|r| format!("`{}`: {}", r.stage, r.row.metric)).collect();
    let _ = writeln!(text, "\n### Seeds\n\n| seed | {} |\n|--:|{}", heads.join(" | "), "--:|".repeat(columns.len()));
    for result in results {
        let cell = |column: &&PooledRow| {
            result.row(&column.stage, &column.row.metric).map_or_else(|| value_text(None), |r| sides(&r.row))
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        let _ = writeln!(text, "| {} | {} |", result.seed, cells.join(" | "));
    }
}

fn pooled(judgment: &SeedJudgment, text: &mut String) {
    text.push_str("\n### All seeds\n\n| row | means | difference | bootstrap | problems |\n|---|--:|--:|--:|--:|\n");
    for row in &judgment.rows {
        let name = format!("`{}`: {}", row.stage, row.row.metric);
        let n = row.row.n.map_or_else(|| value_text(None), |n| n.to_string());
        let difference = row
            .row
            .difference
            .map_or_else(|| value_text(None), |d| rounded(d) + &interval(row.row.low.zip(row.row.high)));
        let bootstrap = row.bootstrap.map_or_else(|| value_text(None), |b| interval(Some(b)));
        let _ = writeln!(text, "| {name} | {} | {difference} | {} | {n} |", means(&row.row), bootstrap.trim());
    }
    text.push_str(
        "\nMeans are baseline → treatment, or b → a of the row. Differences have the 95% t interval over seeds; the \
         bootstrap resamples seeds, then problems.\n\n\
         | role | checked | value | required | holds |\n|---|---|--:|---|---|\n",
    );
    for check in &judgment.checks {
        let _ = writeln!(text, "{}", checked(check));
    }
    text.push_str(
        "\n`mechanism` and `sanity` hold on every seed (the value is that of the seed nearest to failing); bounds of \
         guards are one-sided at 95%.\n",
    );
}

fn checked(check: &JudgedCheck) -> String {
    let holds = match (check.passed, check.harms) {
        (_, true) => "**no, harm**",
        (false, false) => "**no**",
        (true, false) => "yes",
    };
    let name = format!("`{}`: {}", check.stage, check.metric);
    format!("| {} | {name} | {} | {} | {holds} |", check.role, value_text(check.value), check.requirement_text())
}

/// Returns the rows that have a check, each once, in the order of the plan.
fn checked_rows(judgment: &SeedJudgment) -> Vec<&PooledRow> {
    let is_checked =
        |row: &&PooledRow| judgment.checks.iter().any(|c| c.stage == row.stage && c.metric == row.row.metric);
    judgment.rows.iter().filter(is_checked).collect()
}

/// Formats `0.191 → 0.529 (+0.338)`.
fn sides(row: &Comparison) -> String {
    let difference = row.difference.map(|d| format!(" ({}{})", if d > 0.0 { "+" } else { "" }, rounded(d)));
    means(row) + &difference.unwrap_or_default()
}

fn means(row: &Comparison) -> String {
    match row.b {
        Some(b) => format!("{} → {}", rounded(b), value_text(row.a)),
        None => value_text(row.a),
    }
}

fn interval(ends: Option<(f64, f64)>) -> String {
    ends.map(|(low, high)| format!(" [{}, {}]", rounded(low), rounded(high))).unwrap_or_default()
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Formats the effect as a clause for the index: `avg 0.45 → 0.55, 0.1 [0.05, 0.15]`.
pub fn clause(judgment: &SeedJudgment) -> String {
    let effect = judgment.checks.iter().find(|c| c.role == "effect");
    let row = effect.and_then(|c| judgment.rows.iter().find(|r| r.stage == c.stage && r.row.metric == c.metric));
    match row.map(|r| &r.row) {
        Some(row) => {
            let difference = row.difference.map(rounded).unwrap_or_default();
            format!("`{}` {}, {difference}{}", row.metric, means(row), interval(row.low.zip(row.high)))
        }
        None => "not run".into(),
    }
}
