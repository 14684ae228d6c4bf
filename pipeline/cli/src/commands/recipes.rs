//! Implements `trainyard recipes`, the recipes of published systems. Without a subcommand it lists them, with `--write`
//! it writes a page for each system, and with `run` it runs recipes with their mechanism on and off.

mod ablation;
mod arms;
mod difference;
pub mod effects;
pub mod library;
mod loaded_recipe;
mod page;
mod seeds;
pub mod show;
mod systems;

use crate::args::{OutputFormat, RecipesArgs, RecipesCommand};
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text, table};
use crate::{compiled, session};
use library::Library;
use loaded_recipe::LoadedRecipe;
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_core::Result;

/// Runs the subcommand, writes the pages, or lists the recipes.
pub fn run(args: &RecipesArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    match (&args.command, &args.write) {
        (Some(RecipesCommand::Run { names, seeds }), _) if seeds.seeds.is_some() => {
            seeds::run(args, names, seeds, catalogue)
        }
        (Some(RecipesCommand::Run { names, .. }), _) => ablation::run(args, names, catalogue),
        (Some(RecipesCommand::Show { name, merged }), _) => show::run(args, name, *merged, catalogue),
        (None, Some(file)) => systems::run(args, file, catalogue),
        (None, None) => list(args, catalogue),
    }
}

/// Lists the recipes. Errors: invalid (exit code 2), if a file does not compile or does not have the form of a recipe.
fn list(args: &RecipesArgs, catalogue: &Catalogue) -> Result<CliExit> {
    let site = session::site(&args.site, catalogue)?;
    let library = Library::open(args.folder.as_deref(), &compiled::working_directory()?)?;
    let mut recipes = loaded_recipe::find(&library, &[], &args.params, catalogue, &site)?;
    recipes.sort_by(|a, b| (&a.subject, &a.name).cmp(&(&b.subject, &b.name)));
    match args.format {
        OutputFormat::Json => print_json(&recipes.iter().map(as_json).collect::<Vec<Value>>())?,
        OutputFormat::Text if recipes.is_empty() => print_text(&format!("no recipes in {}", library.place())),
        OutputFormat::Text => {
            let row = |f: &LoadedRecipe| {
                let r = &f.recipe;
                let subject = f.subject.clone().unwrap_or_default();
                vec![f.name.clone(), subject, r.system.clone(), r.source.clone(), f.parts.join(", ")]
            };
            let rows: Vec<Vec<String>> = recipes.iter().map(row).collect();
            print_text(&table(&["recipe", "subject", "system", "source", "switched"], &rows));
            print_text("\nnext: trainyard recipes show NAME, or trainyard recipes run NAME -p size=quick");
        }
    }
    Ok(CliExit::Done)
}

fn as_json(found: &LoadedRecipe) -> Value {
    let r = &found.recipe;
    json!({
        "name": found.name, "subject": found.subject, "file": found.path, "system": r.system, "source": r.source,
        "mechanism": r.mechanism, "parts": found.parts, "limits": r.limits, "result": r.result,
    })
}
