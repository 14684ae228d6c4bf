//! The recipe files of a folder, compiled and held to the form of a recipe.
//!
//! A recipe is a workflow file with more to keep: it is named after its file, switches its mechanism by a param, has a check of either
//! role, and names parts that exist. Files without the key `recipe` (a shared cold start) are passed over. All mistakes of all files
//! are reported at once.

use crate::compiled;
use crate::output::diagnostics;
use serde_json::Value;
use std::path::{Path, PathBuf};
use trainyard_app::Catalogue;
use trainyard_core::error::io_error;
use trainyard_core::metric::address;
use trainyard_core::{Error, Result};
use trainyard_spec::diagnostic::suggest;
use trainyard_spec::plan::Severity;
use trainyard_spec::site::Site;
use trainyard_spec::{Plan, Recipe};

/// The param that switches the mechanism.
pub const SWITCH: &str = "mechanism";
/// What a check of a recipe is for.
pub const ROLES: [&str; 2] = ["mechanism", "guard"];

/// A sound recipe.
pub struct Found {
    /// The file's name without `.yaml`.
    pub name: String,
    pub path: PathBuf,
    pub recipe: Recipe,
    pub plan: Plan,
}

/// The recipes called `names`, or all of the folder, sorted by name. Mistakes in files are printed.
///
/// Errors: invalid (no such folder or recipe, files with mistakes).
pub fn find(
    folder: &Path,
    names: &[String],
    params: &[String],
    catalogue: &Catalogue,
    site: &Site,
) -> Result<Vec<Found>> {
    let files = files(folder)?;
    if let Some(unknown) = names.iter().find(|n| !files.iter().any(|(stem, _)| stem == *n)) {
        let error = Error::invalid(format!("there is no recipe `{unknown}` in {}", folder.display()));
        return Err(suggest(unknown, files.iter().map(|(stem, _)| stem.as_str())).into_iter().fold(error, Error::help));
    }
    let mut found = Vec::new();
    let mut wrong = Vec::new();
    for (name, path) in files.into_iter().filter(|(stem, _)| names.is_empty() || names.contains(stem)) {
        let asked = !names.is_empty();
        match one(&name, &path, params, catalogue, site)? {
            One::Recipe(recipe) => found.push(*recipe),
            One::Other if asked => wrong.push(format!("{name}: the file has no key `recipe`")),
            One::Other => {}
            One::Wrong(problems) => wrong.extend(problems.into_iter().map(|p| format!("{name}: {p}"))),
        }
    }
    if wrong.is_empty() {
        Ok(found)
    } else {
        Err(Error::invalid(wrong.join("\n  ")).help("CONTRIBUTING.md says what a recipe must hold"))
    }
}

/// What one file is.
enum One {
    Recipe(Box<Found>),
    Other,
    Wrong(Vec<String>),
}

fn one(name: &str, path: &Path, params: &[String], catalogue: &Catalogue, site: &Site) -> Result<One> {
    let mut compiled = compiled::file(path, params, catalogue, site)?;
    let unreadable = compiled.diagnostics.iter().any(|d| d.is_error() && d.code.starts_with("yaml-"));
    let Some(recipe) = compiled.recipe.filter(|_| !unreadable) else {
        if !unreadable {
            return Ok(One::Other);
        }
        diagnostics::print(&compiled.diagnostics, &compiled.sources);
        return Ok(One::Wrong(vec!["the file cannot be read".into()]));
    };
    compiled.diagnostics.retain(|d| d.severity != trainyard_spec::Severity::Note);
    diagnostics::print(&compiled.diagnostics, &compiled.sources);
    let Some(plan) = compiled.plan else {
        return Ok(One::Wrong(vec![format!("the file has {}", diagnostics::count(&compiled.diagnostics))]));
    };
    let problems = form(name, &recipe, &plan, catalogue);
    if !problems.is_empty() {
        return Ok(One::Wrong(problems));
    }
    Ok(One::Recipe(Box::new(Found { name: name.to_string(), path: path.to_path_buf(), recipe, plan })))
}

/// What a workflow lacks to be a recipe.
fn form(name: &str, recipe: &Recipe, plan: &Plan, catalogue: &Catalogue) -> Vec<String> {
    let mut problems = Vec::new();
    if plan.workflow != name {
        problems.push(format!("its `name` is `{}`, but the file is called `{name}`", plan.workflow));
    }
    if !matches!(plan.params.get(SWITCH).and_then(Value::as_str), Some("on" | "off")) {
        problems.push(format!("it has no param `{SWITCH}: {{type: string, choices: [on, off], default: on}}`"));
    }
    let checks = || plan.nodes.iter().flat_map(|n| &n.checks);
    for role in ROLES {
        if !checks().any(|c| c.role.as_deref() == Some(role)) {
            problems.push(format!("no check has the role `{role}`"));
        }
    }
    for check in checks().filter(|c| c.role.is_some() && c.severity == Severity::Warn) {
        problems.push(format!("the check of `{}` has a role, but only warns", address(&check.metric, check.of)));
    }
    problems.extend(recipe.parts.iter().filter_map(|part| catalogue.problem(part)));
    problems
}

/// File names without their extension, and paths; sorted.
fn files(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let help = "say where the recipes are with `--folder`, or go to the repository's root";
    let entries = std::fs::read_dir(folder).map_err(|e| io_error(folder, &e).help(help))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| io_error(folder, &e))?.path();
        let stem = path.file_stem().and_then(|s| s.to_str()).map(str::to_string);
        let yaml = path.extension().and_then(|e| e.to_str()).is_some_and(|e| matches!(e, "yaml" | "yml"));
        files.extend(stem.filter(|_| yaml).map(|stem| (stem, path)));
    }
    files.sort();
    Ok(files)
}
