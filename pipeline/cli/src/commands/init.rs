//! `trainyard init [FOLDER]`: a first workflow, a site file and the schema for editors. Overwrites nothing.

use crate::args::{Format, InitArgs};
use crate::exit::Exit;
use crate::output::human::{print_json, print_text};
use serde_json::json;
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

const WORKFLOW: &str = include_str!("../templates/workflow.yaml");
const SITE: &str = include_str!("../templates/trainyard.yaml");

/// Writes all three files or, if one of them is there already, none.
pub fn run(args: &InitArgs, catalogue: &Arc<Catalogue>) -> Result<Exit> {
    let schema = trainyard_spec::schema::workflow_schema(&**catalogue);
    let schema = serde_json::to_string_pretty(&schema)
        .map_err(|e| Error::bug(format!("the schema has no JSON form: {e}")))?
        + "\n";
    let files = [("workflow.yaml", WORKFLOW), ("trainyard.yaml", SITE), ("schema.json", &schema)];
    if let Some((name, _)) = files.iter().find(|(name, _)| args.folder.join(name).exists()) {
        return Err(
            Error::invalid(format!("{} exists already", args.folder.join(name).display())).help("name an empty folder")
        );
    }
    std::fs::create_dir_all(&args.folder).map_err(|e| io_error(&args.folder, &e))?;
    let mut wrote = Vec::new();
    for (name, content) in files {
        let path = args.folder.join(name);
        std::fs::write(&path, content).map_err(|e| io_error(&path, &e))?;
        wrote.push(path.display().to_string());
    }
    let next = format!("trainyard run {}", args.folder.join("workflow.yaml").display());
    match args.format {
        Format::Json => print_json(&json!({"wrote": wrote, "next": next}))?,
        Format::Text => {
            wrote.iter().for_each(|path| print_text(&format!("wrote {path}")));
            print_text(&format!("\nnext: {next}"));
        }
    }
    Ok(Exit::Done)
}
