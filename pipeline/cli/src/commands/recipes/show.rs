//! Implements `trainyard recipes show NAME`, which prints the file of a recipe, or the file with its parents merged in.

use super::library::Library;
use crate::args::{OutputFormat, RecipesArgs};
use crate::compiled;
use crate::exit::CliExit;
use crate::output::human::print_json;
use crate::shipped::ShippedFiles;
use serde_json::json;
use std::io::Write as _;
use std::path::Path;
use trainyard_app::Catalogue;
use trainyard_core::{Error, Result};
use trainyard_spec::FileSystem as _;
use trainyard_spec::merged::{merged, relative};

/// Prints the file of a recipe.
pub fn run(args: &RecipesArgs, name: &str, is_merged: bool, catalogue: &Catalogue) -> Result<CliExit> {
    let library = Library::open(args.folder.as_deref(), &compiled::working_directory()?)?;
    let path = &library.recipe(name)?.path;
    let text = if is_merged { merged_text(path, catalogue)? } else { ShippedFiles.read(path)? };
    match args.format {
        OutputFormat::Json => print_json(&json!({"name": name, "file": path, "text": text}))?,
        OutputFormat::Text => write_text(&text),
    }
    Ok(CliExit::Done)
}

/// Prints a text unchanged. Errors of a closed stdout are ignored.
pub fn write_text(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// Returns a file merged with its parents, with paths relative to its folder. Errors: invalid (a file cannot be read;
/// its diagnostics are printed).
pub fn merged_text(path: &Path, catalogue: &Catalogue) -> Result<String> {
    let home = path.parent().unwrap_or(Path::new("/")).to_path_buf();
    let found = merged(&ShippedFiles, catalogue, path, &compiled::working_directory()?, &mut |p| relative(&home, p));
    found.text.ok_or_else(|| {
        crate::output::diagnostics::print(&found.diagnostics, &found.sources);
        Error::invalid(format!("{} cannot be read", path.display())).help("fix it, then run the same command again")
    })
}
