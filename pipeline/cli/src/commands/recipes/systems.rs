//! Implements `trainyard recipes --write FILE`, which writes an index of all systems, and a page for each system into a
//! folder of the same name.

use super::effects::{Effects, effects};
use super::library::Library;
use super::loaded_recipe::{self, LoadedRecipe};
use super::page::{Evidence, MARK, cell, page, paper};
use super::seeds::{self, judge, result};
use crate::args::{OutputFormat, RecipesArgs};
use crate::compiled;
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text};
use crate::session::{self, Access};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use trainyard_app::{Catalogue, wiring};
use trainyard_core::error::io_error;
use trainyard_core::{Result, SystemClock};
use trainyard_runtime::NoopObserver;
use trainyard_spec::recipe::RecipeResult;

/// Name of the folder with result files of seeds, in the folder of the pages.
const RESULTS: &str = "results";

/// Writes the index to `file`, and the pages next to it, with the effects of the recipes whose runs are in this store.
/// Removes the pages of recipes that no longer exist.
pub fn run(args: &RecipesArgs, file: &Path, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let session = session::open(&args.site, Access::ReadOrEmpty, catalogue)?;
    let library = Library::open(args.folder.as_deref(), &compiled::working_directory()?)?;
    let recipes = loaded_recipe::find(&library, &[], &args.params, catalogue, &session.site)?;
    let context = wiring::run_context(&session, catalogue, Arc::new(SystemClock::new()), Arc::new(NoopObserver))?;
    let folder = file.with_extension("");
    let mut rows = Vec::new();
    for recipe in &recipes {
        let evidence = if recipe.recipe.result.is_some() {
            let results = result::all(&folder.join(RESULTS), &recipe.name)?;
            let judgment = judge::judge(&recipe.plan, &results);
            Evidence::Seeds(results, Box::new(judgment))
        } else {
            Evidence::OneRun(session.block_on(effects(&recipe.plan, &context))?)
        };
        rows.push((recipe, evidence));
    }
    write(file, &index(&rows, &folder, &args.params))?;
    std::fs::create_dir_all(&folder).map_err(|e| io_error(&folder, &e))?;
    for (recipe, evidence) in &rows {
        write(&folder.join(format!("{}.md", recipe.name)), &page(recipe, evidence, &folder))?;
    }
    remove_stale(&folder, &recipes)?;
    let measured = rows.iter().filter(|(_, evidence)| is_measured(evidence)).count();
    let (file, store) = (file.display().to_string(), session.store.url());
    match args.format {
        OutputFormat::Json => {
            print_json(&json!({"wrote": file, "recipes": rows.len(), "measured": measured, "store": store}))?
        }
        OutputFormat::Text => {
            print_text(&format!("wrote {file}: {} recipes, {measured} with results in {store}", rows.len()))
        }
    }
    Ok(CliExit::Done)
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).map_err(|e| io_error(file, &e).help("the folder of the file must exist"))
}

/// Deletes generated pages of recipes that no longer exist.
fn remove_stale(folder: &Path, recipes: &[LoadedRecipe]) -> Result<()> {
    for entry in std::fs::read_dir(folder).map_err(|e| io_error(folder, &e))? {
        let path = entry.map_err(|e| io_error(folder, &e))?.path();
        let known = recipes.iter().any(|r| path.file_stem().is_some_and(|stem| stem == r.name.as_str()));
        let stale = path.extension().is_some_and(|e| e == "md") && !known;
        if stale && std::fs::read_to_string(&path).is_ok_and(|text| text.contains(MARK)) {
            std::fs::remove_file(&path).map_err(|e| io_error(&path, &e))?;
        }
    }
    Ok(())
}

fn is_measured(evidence: &Evidence) -> bool {
    match evidence {
        Evidence::OneRun(effects) => effects.is_some(),
        Evidence::Seeds(results, _) => !results.is_empty(),
    }
}

/// Returns the judged results of each system, over its recipes.
fn results_by_system<'a>(rows: &'a [(&LoadedRecipe, Evidence)]) -> BTreeMap<&'a str, Vec<RecipeResult>> {
    let mut results: BTreeMap<&str, Vec<RecipeResult>> = BTreeMap::new();
    for (found, evidence) in rows {
        let of_system = results.entry(&found.recipe.system).or_default();
        if let Evidence::Seeds(_, judgment) = evidence {
            of_system.extend(judgment.result);
        }
    }
    results
}

/// Formats the number of systems with each result. A system may help on one task and harm on another one; it counts as
/// both.
fn count(results: &BTreeMap<&str, Vec<RecipeResult>>) -> String {
    let with = |result| results.values().filter(|of_system| of_system.contains(&result)).count();
    let judged: Vec<_> = results.values().filter(|of_system| !of_system.is_empty()).collect();
    let not_shown = judged.iter().filter(|of_system| of_system.iter().all(|r| *r == RecipeResult::NotShown)).count();
    format!(
        "{} systems: **{} shown to help on a task, {} to harm on one, {not_shown} without a shown effect** by the \
         protocol\nof [effects.md](effects.md). The effects of the other {} are not judged yet; their recipes show the \
         mechanism alone.\n\n",
        results.len(),
        with(RecipeResult::Shown),
        with(RecipeResult::Harm),
        results.len() - judged.len()
    )
}

fn index(rows: &[(&LoadedRecipe, Evidence)], pages: &Path, params: &[String]) -> String {
    let mut text = format!("# Published systems\n\n{MARK}\n\n{}{HEAD}", count(&results_by_system(rows)));
    if !params.is_empty() {
        let _ = writeln!(text, "Parameters of these runs: `{}`.\n", params.join("`, `"));
    }
    let mut subjects: BTreeMap<Option<&str>, Vec<&(&LoadedRecipe, Evidence)>> = BTreeMap::new();
    for row in rows {
        subjects.entry(row.0.subject.as_deref()).or_default().push(row);
    }
    let pages = pages.file_name().unwrap_or_default().to_string_lossy();
    for (subject, rows) in subjects {
        if let Some(subject) = subject {
            let _ = writeln!(text, "## {}\n", title(subject));
        }
        text.push_str("| system | paper | switched | measured | page |\n|---|---|---|---|---|\n");
        for (found, evidence) in rows {
            let parts: Vec<String> = found.parts.iter().map(|p| format!("`{p}`")).collect();
            let cells = [
                cell(&found.recipe.system),
                paper(&found.recipe.source),
                parts.join(", "),
                cell(&clause(evidence)),
                format!("[{0}]({pages}/{0}.md)", found.name),
            ];
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text.push('\n');
    }
    text.trim_end().to_string() + "\n"
}

/// Returns the table cell with the measured effects.
fn clause(evidence: &Evidence) -> String {
    match evidence {
        Evidence::OneRun(effects) => effects.as_ref().map_or_else(|| "not run".to_string(), effects_text),
        Evidence::Seeds(results, _) if results.is_empty() => "not run".to_string(),
        Evidence::Seeds(_, judgment) => {
            format!("**{}**: {}", seeds::page::word(judgment.result), seeds::page::clause(judgment))
        }
    }
}

/// Formats the first number of the mechanism, preferably one that both arms have, and every guard that changed.
fn effects_text(effects: &Effects) -> String {
    let mechanism = || effects.checks.iter().filter(|c| c.role == "mechanism").filter_map(|c| c.arm_values.as_ref());
    let first = mechanism().find(|s| s.b.is_some()).or_else(|| mechanism().next());
    let mut clauses: Vec<String> = first.map(|s| s.sides()).into_iter().collect();
    clauses.extend(effects.changes());
    if !effects.hold() {
        clauses.push("**not all checks hold**".into());
    }
    clauses.join("; ")
}

/// Formats the title of a subject: `filters-and-curricula` → `Filters and curricula`.
fn title(subject: &str) -> String {
    let words = subject.replace(['-', '_'], " ");
    let mut chars = words.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

const HEAD: &str = "\
Each system is a recipe: one training with arms that are equal but for the system's mechanism. Where an effect is
judged, `measured` is the result over pooled seeds with the effect (baseline → treatment, difference, 95% t interval
over seeds); a placebo arm has the mechanism with its signal replaced by chance. Elsewhere it is the first number that
the mechanism moved on one seed, and every guard that moved, with its 95% interval paired by problem.
`trainyard recipes run NAME` runs one; with `-p mechanism=off` its arms are one computation.

";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_that_helps_on_one_task_and_harms_on_another_counts_as_both() {
        use RecipeResult::{Harm, NotShown, Shown};
        let results = BTreeMap::from([
            ("both", vec![Harm, Shown]),
            ("better on one", vec![NotShown, Shown]),
            ("no effect", vec![NotShown, NotShown]),
            ("worse on one", vec![Harm, NotShown]),
            ("not judged", Vec::new()),
        ]);
        let text = count(&results);
        let wanted = "5 systems: **2 shown to help on a task, 2 to harm on one, 1 without a shown effect**";
        assert!(text.starts_with(wanted) && text.contains("the other 1 are not judged yet"), "{text}");
    }
}
