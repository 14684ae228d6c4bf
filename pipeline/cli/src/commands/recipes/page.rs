//! The page of one system: claim, difference of the arms, measured checks, limits, command.

use super::arms::Arms;
use super::difference::difference;
use super::effects::{Change, Effects, Measured, shown};
use super::found::Found;
use crate::shipped;
use std::fmt::Write as _;
use std::path::Path;
use trainyard_spec::merged::relative;

/// Marks files that may be written over.
pub const MARK: &str = "<!-- Written by `trainyard recipes --write`; do not edit. -->";

/// The page, to be written into `folder`.
pub fn page(found: &Found, effects: Option<&Effects>, folder: &Path) -> String {
    let recipe = &found.recipe;
    let mut text = format!("# {}\n\n{MARK}\n\n{}\n\n", recipe.system, recipe.mechanism);
    let parts: Vec<String> = found.parts.iter().map(|p| format!("`{p}`")).collect();
    if !parts.is_empty() {
        let _ = writeln!(text, "Switched: {}.", parts.join(", "));
    }
    let _ = writeln!(text, "Source: {}. Recipe: {}.", paper(&recipe.source), file(found, folder));
    let difference = Arms::of(&found.plan).map(|arms| difference(&arms.baseline, &arms.treatment)).unwrap_or_default();
    if !difference.is_empty() {
        let _ = write!(text, "\n## Difference of the arms\n\n```diff\n{difference}```\n");
    }
    text.push_str("\n## Checks\n\n");
    match effects {
        None => text.push_str("Not run.\n"),
        Some(effects) => measured(effects, &mut text),
    }
    let name = &found.name;
    let _ = write!(text, "\n## Limits\n\n{}\n\n", recipe.limits);
    let _ = write!(text, "## Run it\n\n```sh\ntrainyard recipes run {name}\ntrainyard recipes show {name}\n```\n");
    text
}

fn measured(effects: &Effects, text: &mut String) {
    let changes = effects.changes();
    if !changes.is_empty() {
        let _ = writeln!(text, "The treatment {}.\n", changes.join(" and "));
    }
    text.push_str(
        "| role | metric | baseline | treatment | difference | asked | holds |\n|---|---|--:|--:|--:|---|---|\n",
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

fn row(check: &Measured) -> [String; 7] {
    let holds = match (check.passed, check.change()) {
        (false, _) => "**no**",
        (true, Some(Change::Harm)) => "yes, with harm",
        (true, _) => "yes",
    };
    let asked = format!("`{}` {}", check.metric, check.bound());
    let (metric, numbers) = match &check.sides {
        Some(sides) => {
            let difference = sides.difference().unwrap_or_else(|| shown(None));
            (&sides.subject, [shown(sides.b), shown(sides.a), difference])
        }
        None => (&check.metric, [shown(None), shown(check.value), shown(None)]),
    };
    let [baseline, treatment, difference] = numbers;
    [check.role.clone(), format!("`{metric}`"), baseline, treatment, difference, asked, holds.to_string()]
}

/// A link to the recipe's file, if it lies on a disk: a shipped one is looked for where the repository has it.
fn file(found: &Found, folder: &Path) -> String {
    let path = match found.path.strip_prefix(shipped::FOLDER) {
        Ok(name) => Path::new("workflows/recipes").join(name),
        Err(_) => found.path.clone(),
    };
    match path.canonicalize().ok().zip(folder.canonicalize().ok()) {
        Some((path, folder)) => format!("[{}.yaml]({})", found.name, relative(&folder, &path)),
        None => format!("`{}.yaml`", found.name),
    }
}

/// A link where the source is an arXiv number.
pub fn paper(source: &str) -> String {
    match source.strip_prefix("arXiv ") {
        Some(number) => format!("[{}](https://arxiv.org/abs/{number})", cell(number)),
        None => cell(source),
    }
}

/// Text inside a table.
pub fn cell(text: &str) -> String {
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}
