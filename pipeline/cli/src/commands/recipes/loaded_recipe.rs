//! Compiles recipes and checks that they have the form of a recipe: the name of their file, a param that switches the
//! mechanism, and checks of all required roles.
//!
//! All mistakes of all files are reported at once.

use super::arms;
use super::library::{Library, RecipeFile};
use crate::args::RecipesArgs;
use crate::compiled;
use crate::output::diagnostics;
use crate::session::{self, Access, AppSession};
use serde_json::Value;
use std::path::PathBuf;
use trainyard_app::Catalogue;
use trainyard_core::metric::qualified_name;
use trainyard_core::{Error, Result};
use trainyard_spec::plan::CheckSeverity;
use trainyard_spec::site::Site;
use trainyard_spec::{Plan, RecipeHeader};

/// Parameter that switches the mechanism.
pub const SWITCH: &str = "mechanism";
/// Roles of checks that a recipe must have if it declares no `result`.
const REQUIRED_ROLES: [&str; 2] = ["mechanism", "guard"];
/// Roles of checks that a recipe must have if it declares a `result`.
const RESULT_ROLES: [&str; 4] = ["mechanism", "premise", "effect", "placebo"];

/// A compiled recipe of the required form.
pub struct LoadedRecipe {
    /// Name of the file without `.yaml`.
    pub name: String,
    /// Folder of the file.
    pub subject: Option<String>,
    pub path: PathBuf,
    pub recipe: RecipeHeader,
    /// Parts that the mechanism switches, by folder and kind (`filters/void_turn`).
    pub parts: Vec<String>,
    pub plan: Plan,
}

/// Opens the session and the recipes for a command that runs recipes. Errors: invalid (no recipes, and those of
/// [`find`]), lost (the store).
pub fn open(args: &RecipesArgs, names: &[String], catalogue: &Catalogue) -> Result<(AppSession, Vec<LoadedRecipe>)> {
    let session = session::open(&args.site, Access::Run, catalogue)?;
    let library = Library::open(args.folder.as_deref(), &compiled::working_directory()?)?;
    let recipes = find(&library, names, &args.params, catalogue, &session.site)?;
    if recipes.is_empty() {
        let none = Error::invalid(format!("no recipes in {}", library.place()));
        return Err(none.help("name their folder with `--folder`"));
    }
    Ok((session, recipes))
}

/// Loads the recipes called `names`, or all recipes of the library if `names` is empty, sorted by name. Mistakes in
/// files are printed.
///
/// Errors: invalid (an unknown recipe, or files with mistakes).
pub fn find(
    library: &Library,
    names: &[String],
    params: &[String],
    catalogue: &Catalogue,
    site: &Site,
) -> Result<Vec<LoadedRecipe>> {
    for name in names {
        library.recipe(name)?;
    }
    let mut found: Vec<LoadedRecipe> = Vec::new();
    let mut wrong = Vec::new();
    for file in library.recipes().filter(|f| names.is_empty() || names.contains(&f.name)) {
        if let Err(duplicate) = library.recipe(&file.name) {
            wrong.push(duplicate.message);
            continue;
        }
        match load_recipe(file, params, catalogue, site)? {
            Ok(recipe) => found.push(recipe),
            Err(problems) => wrong.extend(problems.into_iter().map(|p| format!("{}: {p}", file.name))),
        }
    }
    wrong.dedup();
    if wrong.is_empty() {
        Ok(found)
    } else {
        Err(Error::invalid(wrong.join("\n  ")).help("see CONTRIBUTING.md for the form of a recipe"))
    }
}

/// Loads a recipe and prints its diagnostics. The inner error lists the problems of the recipe.
fn load_recipe(
    file: &RecipeFile,
    params: &[String],
    catalogue: &Catalogue,
    site: &Site,
) -> Result<Result<LoadedRecipe, Vec<String>>> {
    let mut compiled = compiled::file(&file.path, params, catalogue, site)?;
    compiled.diagnostics.retain(|d| d.severity != trainyard_spec::Severity::Note);
    diagnostics::print(&compiled.diagnostics, &compiled.sources);
    let (Some(plan), Some(recipe)) = (compiled.plan, compiled.recipe) else {
        let unreadable = compiled.diagnostics.iter().any(|d| d.is_error() && d.code.starts_with("yaml-"));
        let count = diagnostics::count(&compiled.diagnostics);
        let problem = if unreadable { "the file cannot be read".into() } else { format!("the file has {count}") };
        return Ok(Err(vec![problem]));
    };
    let problems = form(&file.name, &plan);
    if !problems.is_empty() {
        return Ok(Err(problems));
    }
    let parts = if plan.params[SWITCH] == "on" {
        arms::switched(&plan)
    } else {
        let on: Vec<String> = params.iter().cloned().chain([format!("{SWITCH}=on")]).collect();
        compiled::file(&file.path, &on, catalogue, site)?.plan.map(|plan| arms::switched(&plan)).unwrap_or_default()
    };
    let (name, subject, path) = (file.name.clone(), file.subject.clone(), file.path.clone());
    Ok(Ok(LoadedRecipe { name, subject, path, recipe, parts, plan }))
}

/// Returns the problems of a workflow that lacks the form of a recipe.
fn form(name: &str, plan: &Plan) -> Vec<String> {
    let mut problems = Vec::new();
    if plan.workflow != name {
        problems.push(format!("its `name` is `{}`, but the file is called `{name}`", plan.workflow));
    }
    if !matches!(plan.params.get(SWITCH).and_then(Value::as_str), Some("on" | "off")) {
        problems.push(format!("it has no param `{SWITCH}: {{type: string, choices: [on, off], default: on}}`"));
    }
    let checks = || plan.nodes.iter().flat_map(|n| &n.checks);
    let judged = plan.recipe.as_ref().is_some_and(|recipe| recipe.result.is_some());
    let roles = if judged { &RESULT_ROLES[..] } else { &REQUIRED_ROLES };
    for role in roles {
        if !checks().any(|c| c.role.as_deref() == Some(*role)) {
            problems.push(format!("no check has the role `{role}`"));
        }
    }
    for check in checks().filter(|c| c.role.is_some() && c.severity == CheckSeverity::Warn) {
        problems.push(format!("the check of `{}` has a role, but only warns", qualified_name(&check.metric, check.of)));
    }
    problems
}
