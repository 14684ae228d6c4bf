//! `trainyard recipes`: published systems as recipe files. Without a subcommand a list, with `--write` the table of their effects,
//! with `run` every recipe in both directions.

mod directions;
mod effects;
mod found;
mod systems;

use crate::args::{Format, RecipesArgs, RecipesCommand};
use crate::exit::Exit;
use crate::output::human::{print_json, print_text, table};
use crate::session;
use found::Found;
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_core::Result;

/// Lists the recipes, runs them, or writes their table.
pub fn run(args: &RecipesArgs, catalogue: &Arc<Catalogue>) -> Result<Exit> {
    match (&args.command, &args.write) {
        (Some(RecipesCommand::Run { names }), _) => directions::run(args, names, catalogue),
        (None, Some(file)) => systems::run(args, file, catalogue),
        (None, None) => list(args, catalogue),
    }
}

/// Exit 2 if a file does not compile or is no sound recipe.
fn list(args: &RecipesArgs, catalogue: &Catalogue) -> Result<Exit> {
    let site = session::site(&args.site, catalogue)?;
    let recipes = found::find(&args.folder, &[], &args.params, catalogue, &site)?;
    match args.format {
        Format::Json => print_json(&recipes.iter().map(as_json).collect::<Vec<Value>>())?,
        Format::Text if recipes.is_empty() => print_text(&format!("no recipes in {}", args.folder.display())),
        Format::Text => {
            let row = |f: &Found| {
                let r = &f.recipe;
                vec![f.name.clone(), r.system.clone(), r.source.clone(), r.parts.join(", "), r.mechanism.clone()]
            };
            print_text(&table(
                &["recipe", "system", "source", "parts", "mechanism"],
                &recipes.iter().map(row).collect::<Vec<_>>(),
            ));
        }
    }
    Ok(Exit::Done)
}

fn as_json(found: &Found) -> Value {
    let r = &found.recipe;
    json!({
        "name": found.name, "file": found.path, "system": r.system, "source": r.source, "mechanism": r.mechanism, "parts": r.parts,
        "limits": r.limits,
    })
}
