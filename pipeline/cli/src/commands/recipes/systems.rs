//! `trainyard recipes --write FILE`: an index of all systems, and a page for each in a folder called like the file.

use super::effects::{Effects, effects};
use super::found::{self, Found};
use super::library::Library;
use super::page::{MARK, cell, page, paper};
use crate::args::{Format, RecipesArgs};
use crate::compiled;
use crate::exit::Exit;
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
use trainyard_runtime::Silent;

/// Writes the index over `file`, and the pages, with the effects of the recipes whose runs this store holds.
pub fn run(args: &RecipesArgs, file: &Path, catalogue: &Arc<Catalogue>) -> Result<Exit> {
    let session = session::open(&args.site, Access::LookOrEmpty, catalogue)?;
    let library = Library::open(args.folder.as_deref(), &compiled::working_directory()?)?;
    let recipes = found::find(&library, &[], &args.params, catalogue, &session.site)?;
    let world = wiring::outside(&session, catalogue, Arc::new(SystemClock::new()), Arc::new(Silent))?;
    let mut rows = Vec::new();
    for recipe in &recipes {
        rows.push((recipe, session.block_on(effects(&recipe.plan, &world))?));
    }
    let folder = file.with_extension("");
    write(file, &index(&rows, &folder, &args.params))?;
    std::fs::create_dir_all(&folder).map_err(|e| io_error(&folder, &e))?;
    for (recipe, effects) in &rows {
        write(&folder.join(format!("{}.md", recipe.name)), &page(recipe, effects.as_ref(), &folder))?;
    }
    remove_stale(&folder, &recipes)?;
    let measured = rows.iter().filter(|(_, effects)| effects.is_some()).count();
    let (file, store) = (file.display().to_string(), session.store.url());
    match args.format {
        Format::Json => {
            print_json(&json!({"wrote": file, "recipes": rows.len(), "measured": measured, "store": store}))?
        }
        Format::Text => {
            print_text(&format!("wrote {file}: {} recipes, {measured} with results in {store}", rows.len()))
        }
    }
    Ok(Exit::Done)
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).map_err(|e| io_error(file, &e).help("the folder of the file must exist"))
}

/// Deletes generated pages of recipes that are no more.
fn remove_stale(folder: &Path, recipes: &[Found]) -> Result<()> {
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

fn index(rows: &[(&Found, Option<Effects>)], pages: &Path, params: &[String]) -> String {
    let mut text = format!("# Published systems\n\n{MARK}\n\n{HEAD}");
    if !params.is_empty() {
        let _ = writeln!(text, "Parameters of these runs: `{}`.\n", params.join("`, `"));
    }
    let mut subjects: BTreeMap<Option<&str>, Vec<&(&Found, Option<Effects>)>> = BTreeMap::new();
    for row in rows {
        subjects.entry(row.0.subject.as_deref()).or_default().push(row);
    }
    let pages = pages.file_name().unwrap_or_default().to_string_lossy();
    for (subject, rows) in subjects {
        if let Some(subject) = subject {
            let _ = writeln!(text, "## {}\n", title(subject));
        }
        text.push_str("| system | paper | switched | shown | page |\n|---|---|---|---|---|\n");
        for (found, effects) in rows {
            let parts: Vec<String> = found.parts.iter().map(|p| format!("`{p}`")).collect();
            let cells = [
                cell(&found.recipe.system),
                paper(&found.recipe.source),
                parts.join(", "),
                effects.as_ref().map_or_else(|| "not run".to_string(), |e| cell(&shown(e))),
                format!("[{0}]({pages}/{0}.md)", found.name),
            ];
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text.push('\n');
    }
    text.trim_end().to_string() + "\n"
}

/// The first number of the mechanism, if possible one that both arms have, and every guard that moved.
fn shown(effects: &Effects) -> String {
    let mechanism = || effects.checks.iter().filter(|c| c.role == "mechanism").filter_map(|c| c.sides.as_ref());
    let first = mechanism().find(|s| s.b.is_some()).or_else(|| mechanism().next());
    let mut clauses: Vec<String> = first.map(|s| s.sides()).into_iter().collect();
    clauses.extend(effects.changes());
    if !effects.hold() {
        clauses.push("**not all checks hold**".into());
    }
    clauses.join("; ")
}

/// `filters-and-curricula` → `Filters and curricula`.
fn title(subject: &str) -> String {
    let words = subject.replace(['-', '_'], " ");
    let mut chars = words.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

const HEAD: &str = "\
Each system is a recipe: one training with two arms, equal but for the system's mechanism. `shown` is the first
number that the mechanism moved (baseline → treatment) and every guard that moved, with its 95% interval paired by
problem. Harm is written as harm, even where the recipe's bound tolerates it. The pages have all checks.
`trainyard recipes run NAME` runs one; with `-p mechanism=off` its arms are one computation.

";
