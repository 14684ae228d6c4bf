//! Formats the page of one system: claim, difference of the arms, measured checks, limits, and the command.

use super::arms::Arms;
use super::difference::difference;
use super::effects::{CheckMeasurement, Effects, GuardEffect, value_text};
use super::loaded_recipe::LoadedRecipe;
use super::seeds;
use super::seeds::judge::SeedJudgment;
use super::seeds::result::SeedResult;
use crate::shipped;
use std::fmt::Write as _;
use std::path::Path;
use trainyard_spec::merged::relative;

/// Mark of generated files, which may be overwritten.
pub const MARK: &str = "<!-- Written by `trainyard recipes --write`; do not edit. -->";

/// Measured effects of a recipe.
pub enum Evidence {
    /// Checks of one run, for a recipe that declares no `result`; `None` if it was not run.
    OneRun(Option<Effects>),
    /// Results of several seeds, for a recipe with a `result`.
    Seeds(Vec<SeedResult>, Box<SeedJudgment>),
}

/// Returns the text of the page. Its links are relative to `folder`.
pub fn page(found: &LoadedRecipe, evidence: &Evidence, folder: &Path) -> String {
    let recipe = &found.recipe;
    let mut text = format!("# {}\n\n{MARK}\n\n{}\n\n", recipe.system, recipe.mechanism);
    let parts: Vec<String> = found.parts.iter().map(|p| format!("`{p}`")).collect();
    if !parts.is_empty() {
        let _ = writeln!(text, "Switched: {}.", parts.join(", "));
    }
    let _ = writeln!(text, "Source: {}. Recipe: {}.", paper(&recipe.source), file(found, folder));
    if let Some(arms) = Arms::of(&found.plan) {
        differences(&arms, &mut text);
    }
    let name = &found.name;
    let seeds = match evidence {
        Evidence::OneRun(effects) => {
            text.push_str("\n## Checks\n\n");
            match effects {
                None => text.push_str("Not run.\n"),
                Some(effects) => measured(effects, &mut text),
            }
            String::new()
        }
        Evidence::Seeds(results, judgment) => {
            seeds::page::write(found, results, judgment, &mut text);
            format!("trainyard recipes run {name} --seeds 41..45 --jobs 2\n")
        }
    };
    let _ = write!(text, "\n## Limits\n\n{}\n\n", recipe.limits);
    let run = format!("trainyard recipes run {name}\ntrainyard recipes show {name}\n");
    let _ = write!(text, "## Run it\n\n```sh\n{seeds}{run}```\n");
    text
}

/// Writes the keys in which the arms differ.
fn differences(arms: &Arms, text: &mut String) {
    let treatment = difference(&arms.baseline, &arms.treatment);
    if !treatment.is_empty() {
        let _ = write!(text, "\n## Difference of the arms\n\n```diff\n{treatment}```\n");
    }
    let placebo = arms.placebo.as_ref().map(|placebo| difference(&arms.treatment, placebo)).unwrap_or_default();
    if !placebo.is_empty() {
        let _ = write!(text, "\nThe placebo differs from the treatment:\n\n```diff\n{placebo}```\n");
    }
}

fn measured(effects: &Effects, text: &mut String) {
    let changes = effects.changes();
    if !changes.is_empty() {
        let _ = writeln!(text, "The treatment {}.\n", changes.join(" and "));
    }
    text.push_str(
        "| role | metric | baseline | treatment | difference | required | holds |\n|---|---|--:|--:|--:|---|---|\n",
    );
    for check in &effects.checks {
        let _ = writeln!(text, "| {} |", row(check).join(" | "));
    }
    let digest = effects.digest.short();
    let _ = writeln!(
        text,
        "\nDifferences are treatment minus baseline, with 95% intervals paired by problem. Stage digest `{digest}`."
    );
}

fn row(check: &CheckMeasurement) -> [String; 7] {
    let holds = match (check.passed, check.change()) {
        (false, _) => "**no**",
        (true, Some(GuardEffect::Harm)) => "yes, with harm",
        (true, _) => "yes",
    };
    let required = format!("`{}` {}", check.metric, check.bound());
    let (metric, numbers) = match &check.arm_values {
        Some(sides) => {
            let difference = sides.difference().unwrap_or_else(|| value_text(None));
            (&sides.subject, [value_text(sides.b), value_text(sides.a), difference])
        }
        None => (&check.metric, [value_text(None), value_text(check.value), value_text(None)]),
    };
    let [baseline, treatment, difference] = numbers;
    [check.role.clone(), format!("`{metric}`"), baseline, treatment, difference, required, holds.to_string()]
}

/// Returns a link to the recipe's file, relative to `folder`. A shipped recipe links to its path in the repository.
fn file(found: &LoadedRecipe, folder: &Path) -> String {
    let path = match found.path.strip_prefix(shipped::FOLDER) {
        Ok(name) => Path::new("workflows/recipes").join(name),
        Err(_) => found.path.clone(),
    };
    match path.canonicalize().ok().zip(folder.canonicalize().ok()) {
        Some((path, folder)) => format!("[{}.yaml]({})", found.name, relative(&folder, &path)),
        None => format!("`{}.yaml`", found.name),
    }
}

/// Formats a source, as a link if it is an arXiv number.
pub fn paper(source: &str) -> String {
    match source.strip_prefix("arXiv ") {
        Some(number) => format!("[{}](https://arxiv.org/abs/{number})", cell(number)),
        None => cell(source),
    }
}

/// Escapes text for a table cell.
pub fn cell(text: &str) -> String {
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}
