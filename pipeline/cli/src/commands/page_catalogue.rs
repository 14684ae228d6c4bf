//! Fills the catalogue of the pages: shipped recipes with their checks and what was measured, stage kinds, parts.

use crate::commands::recipes::effects::bound;
use crate::commands::recipes::library::{Library, RecipeFile};
use crate::compiled;
use crate::output::diagnostics;
use crate::shipped::ShippedFiles;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use trainyard_app::Catalogue;
use trainyard_core::Result;
use trainyard_core::metric::qualified_name;
use trainyard_pages::{LazyCatalogue, LazyRecipes, PageCatalogue, PartEntry, RecipeCheck, RecipeEntry};
use trainyard_spec::site::Site;
use trainyard_spec::{FileSystem as _, Plan};

/// Table of all systems, with what was measured of each recipe.
const SYSTEMS: &str = include_str!("../../../../docs/systems.md");

/// Returns the catalogue of this program, made on first use.
pub fn lazy(known: &Arc<Catalogue>, site: &Site) -> LazyCatalogue {
    let (known, site) = (known.clone(), site.clone());
    LazyLock::new(Box::new(move || catalogue(known, site)))
}

/// Returns the catalogue of this program. Recipes that cannot be read are left out with a warning in the log.
fn catalogue(catalogue: Arc<Catalogue>, site: Site) -> PageCatalogue {
    let (kinds, parts) = (catalogue.stages().cloned().collect(), parts(&catalogue));
    let recipes = LazyRecipes::new(move || {
        recipes(&catalogue, &site).unwrap_or_else(|error| {
            tracing::warn!("the pages have no recipes: {error}");
            Vec::new()
        })
    });
    PageCatalogue { recipes, kinds, parts }
}

fn parts(catalogue: &Catalogue) -> Vec<PartEntry> {
    let folders = catalogue.families().into_iter().map(|family| family.folder()).collect::<Vec<_>>();
    let pages = folders.into_iter().flat_map(|folder| catalogue.pages(folder).unwrap_or_default());
    let entry = |page: trainyard_api::PartPage| PartEntry {
        family: page.folder.to_string(),
        summary: page.summary.to_string(),
        doc: page.doc.to_string(),
        needs: page.needs.iter().map(ToString::to_string).collect(),
        options: page.options,
        metrics: page.metrics,
        expands_to: page.expands_to.map(|expanded| format!("{expanded:#}")),
        name: page.name,
    };
    let mut parts: Vec<PartEntry> = pages.map(entry).collect();
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    parts
}

fn recipes(catalogue: &Catalogue, site: &Site) -> Result<Vec<RecipeEntry>> {
    let library = Library::open(None, &compiled::working_directory()?)?;
    let measured = measured(SYSTEMS);
    let mut recipes = Vec::new();
    for file in library.recipes() {
        let entry = recipe(file, catalogue, site)?;
        let measured = measured.get(entry.name.as_str()).cloned().unwrap_or_default();
        recipes.push(RecipeEntry { measured, ..entry });
    }
    recipes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(recipes)
}

fn recipe(file: &RecipeFile, catalogue: &Catalogue, site: &Site) -> Result<RecipeEntry> {
    let compiled = compiled::file(&file.path, &[], catalogue, site)?;
    let header = compiled.recipe.unwrap_or_default();
    let problem = match &compiled.plan {
        Some(_) => None,
        None => Some(format!("the file has {}", diagnostics::count(&compiled.diagnostics))),
    };
    Ok(RecipeEntry {
        name: file.name.clone(),
        subject: file.subject.clone().unwrap_or_default(),
        system: header.system,
        source: header.source,
        mechanism: header.mechanism,
        claim: header.claim,
        world: header.world,
        limits: header.limits,
        measured: String::new(),
        checks: compiled.plan.as_ref().map(checks).unwrap_or_default(),
        problem,
        text: ShippedFiles.read(Path::new(&file.path))?,
    })
}

fn checks(plan: &Plan) -> Vec<RecipeCheck> {
    let all = plan.nodes.iter().flat_map(|node| node.checks.iter().map(move |check| (node, check)));
    let check = all.map(|(node, check)| RecipeCheck {
        stage: node.key.0.clone(),
        role: check.role.clone().unwrap_or_default(),
        metric: qualified_name(&check.metric, check.of),
        bound: bound(check.min, check.max),
    });
    check.collect()
}

/// Reads the column `measured` of the table of systems, by the name of the recipe. Marks of Markdown are removed.
fn measured<'a>(table: &'a str) -> BTreeMap<&'a str, String> {
    let row = |line: &'a str| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let [.., measured, page] = cells.as_slice() else { return None };
        let name = page.strip_prefix('[')?.split_once(']')?.0;
        Some((name, measured.replace("**", "").replace('`', "")))
    };
    table.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trainyard_app::SessionOptions;
    use trainyard_core::StageKinds as _;
    use trainyard_views::config_rows::{KindDefaults, config_rows};

    /// Returns the catalogue of this program, and its form for pages.
    fn made() -> (Arc<Catalogue>, PageCatalogue) {
        let known = Arc::new(Catalogue::builder().build().unwrap());
        let options = SessionOptions { store: None, site: None };
        let site = trainyard_app::session::site(&options, &known).ok().unwrap();
        (known.clone(), catalogue(known, site))
    }

    #[test]
    fn given_values_of_a_config_are_told_from_defaults() {
        let (known, found) = made();
        let given = |options: serde_json::Value| {
            let read = known.validate_options("rl", &options).ok().unwrap();
            let kind = found.kind("rl").unwrap();
            let composition = found.composition(kind, read.config());
            let defaults = KindDefaults { options: &kind.options, composition: composition.as_ref() };
            let rows = config_rows(read.config(), defaults);
            assert!(rows.len() > 30, "{} values", rows.len());
            let given = rows.into_iter().filter(|row| !row.is_default);
            given.map(|row| row.path).collect::<Vec<String>>()
        };
        assert_eq!(given(json!({})), [""; 0]);
        assert_eq!(given(json!({"steps": 7, "rollout": {"group_size": 4}})), ["rollout.group_size", "steps"]);
        let dapo = given(json!({"algorithm": "dapo"}));
        assert_eq!(dapo, ["filters[0].kind", "filters[1].kind"], "the list is replaced as a whole");
    }

    #[test]
    fn every_recipe_has_checks_and_a_measurement() {
        let (_, found) = made();
        assert!(found.recipes.len() >= 26, "{}", found.recipes.len());
        for recipe in found.recipes.iter() {
            assert_eq!(recipe.problem, None, "{}", recipe.name);
            assert!(!recipe.checks.is_empty() && !recipe.measured.is_empty(), "{}", recipe.name);
            assert!(!recipe.system.is_empty() && recipe.text.contains("recipe:"), "{}", recipe.name);
        }
        let dapo = found.recipes.iter().find(|recipe| recipe.name == "dapo").unwrap();
        assert!(dapo.measured.starts_with("not shown: avg"), "{}", dapo.measured);
        assert!(found.kinds.iter().any(|kind| kind.name == "rl"));
        let clip = found.parts.iter().find(|part| part.name == "losses/clip").unwrap();
        assert_eq!(clip.family, "losses");
    }
}
