//! `trainyard recipes --write FILE`: the table of all systems, with the effects that this store holds.

use super::effects::{Effects, effects};
use super::found::{self, Found};
use crate::args::{Format, RecipesArgs};
use crate::exit::Exit;
use crate::output::human::{print_json, print_text};
use crate::session::{self, Access};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_app::{Catalogue, wiring};
use trainyard_core::error::io_error;
use trainyard_core::{Result, SystemClock};
use trainyard_runtime::Silent;

/// Writes the table over `file`, with the effects of the recipes whose runs this store holds.
pub fn run(args: &RecipesArgs, file: &Path, catalogue: &Arc<Catalogue>) -> Result<Exit> {
    let session = session::open(&args.site, Access::LookOrEmpty, catalogue)?;
    let recipes = found::find(&args.folder, &[], &args.params, catalogue, &session.site)?;
    let world = wiring::outside(&session, catalogue, Arc::new(SystemClock::new()), Arc::new(Silent))?;
    let mut rows = Vec::new();
    for recipe in &recipes {
        rows.push((recipe, session.block_on(effects(&recipe.plan, &world))?));
    }
    let page = page(&rows, &Links::new(&args.folder, file), &args.params);
    std::fs::write(file, page).map_err(|e| io_error(file, &e).help("the folder of the file must exist"))?;
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

fn page(rows: &[(&Found, Option<Effects>)], links: &Links, params: &[String]) -> String {
    let mut text = String::from(HEAD);
    if !params.is_empty() {
        let _ = writeln!(text, "Parameters of these runs: `{}`.\n", params.join("`, `"));
    }
    text.push_str(
        "| system | mechanism | parts | recipe | measured: baseline → treatment | what the toy scale cannot show |\n",
    );
    text.push_str("|---|---|---|---|---|---|\n");
    for (found, effects) in rows {
        let recipe = &found.recipe;
        let parts: Vec<String> = recipe.parts.iter().map(|part| format!("`{part}`")).collect();
        let cells = [
            format!("{} ({})", cell(&recipe.system), cell(&recipe.source)),
            cell(&recipe.mechanism),
            parts.join("<br>"),
            links.recipe(found),
            effects.as_ref().map_or_else(
                || "not run".to_string(),
                |e| e.lines.iter().map(|l| cell(l)).collect::<Vec<_>>().join("<br>"),
            ),
            cell(&recipe.limits),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    let digests: Vec<String> = rows
        .iter()
        .filter_map(|(found, e)| e.as_ref().map(|e| format!("`{}` {}", found.name, e.digest.short())))
        .collect();
    if !digests.is_empty() {
        let _ = writeln!(text, "\nStage digests of these results: {}.", digests.join(", "));
    }
    let failing: Vec<&str> = rows
        .iter()
        .filter(|(_, e)| e.as_ref().is_some_and(|e| !e.hold))
        .map(|(found, _)| found.name.as_str())
        .collect();
    if !failing.is_empty() {
        let _ = writeln!(text, "\nNot all checks hold for: {}.", failing.join(", "));
    }
    text
}

const HEAD: &str = "# Published systems\n\n\
    <!-- Written by `trainyard recipes --write`; do not edit. -->\n\n\
    Each system is a recipe: two arms of one training, equal but for the system's mechanism, and checks on what differs. A `mechanism` \
    check says that the mechanism acts, a `guard` that it does no harm; with `-p mechanism=off` the arms are one computation and every \
    mechanism check fails. Intervals are at 95%, paired by problem.\n\n";

/// Text inside a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Links from the written file to files of the repository.
struct Links {
    /// The repository, and the way to it from the written file.
    root: Option<(PathBuf, String)>,
}

impl Links {
    fn new(recipes: &Path, file: &Path) -> Self {
        let root = recipes
            .canonicalize()
            .ok()
            .and_then(|f| f.ancestors().find(|a| a.join("stages").is_dir()).map(Path::to_path_buf));
        let home = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")).canonicalize().ok();
        let root = root.zip(home).and_then(|(root, home)| {
            let up = "../".repeat(home.strip_prefix(&root).ok()?.components().count());
            Some((root, up))
        });
        Self { root }
    }

    fn recipe(&self, found: &Found) -> String {
        let path = found.path.canonicalize().ok();
        let target = self.root.as_ref().zip(path).and_then(|((root, up), path)| {
            let inside = path.strip_prefix(root).ok()?;
            Some(format!("{up}{}", inside.display()))
        });
        target.map_or_else(|| format!("`{}`", found.name), |target| format!("[`{}`]({target})", found.name))
    }
}
