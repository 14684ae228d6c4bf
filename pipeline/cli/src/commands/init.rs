//! Implements `trainyard init [FOLDER]`, which writes a first workflow, or a recipe as a template, with a site file and
//! the schema for editors. With `--serve` it writes the files to install a daemon, with `--python` the bridge for
//! Python. It never overwrites existing files.

use super::recipes::library::Library;
use crate::args::{AdapterPackage, InitArgs, OutputFormat};
use crate::compiled;
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text};
use crate::output::shell::word;
use crate::shipped::ShippedFiles;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_app::{Catalogue, wiring};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_process::{BRIDGE, BRIDGE_NAME, BRIDGE_SERVER, BRIDGE_SERVER_NAME};
use trainyard_spec::files::absolute;
use trainyard_spec::merged::merged;

const WORKFLOW: &str = include_str!("../templates/workflow.yaml");
const UNIT: &str = include_str!("../templates/trainyard.service");
const CONTAINER: &str = include_str!("../templates/Containerfile");
const SITE: &str = include_str!("../templates/trainyard.yaml");
/// Comment that points editors to the schema.
const SCHEMA_LINE: &str = "# yaml-language-server: $schema=schema.json\n";

/// Writes the requested files and prints the next step.
pub fn run(args: &InitArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    if args.serve {
        let next = "read both files, and docs/schedules.md";
        return write(args, serve(&args.folder)?, next.to_string());
    }
    if args.python {
        let next = "write `my_reward.py` next to it, and name it in a workflow: \
                    `rewards: [{kind: process, command: [python3, my_reward.py]}]`; see docs/custom-code.md";
        let bridge = [(BRIDGE_NAME, BRIDGE), (BRIDGE_SERVER_NAME, BRIDGE_SERVER)];
        let mut files = bridge.map(|(name, text)| (name.to_string(), text.to_string())).to_vec();
        files.extend(args.adapters.iter().map(|adapter| adapter_file(*adapter)));
        let adapter_next = files
            .get(bridge.len())
            .map(|(name, _)| format!("read the first lines of {name}, and docs/custom-environments.md"));
        return write(args, files, adapter_next.unwrap_or_else(|| next.to_string()));
    }
    let schema = trainyard_spec::schema::workflow_schema(&**catalogue);
    let schema = serde_json::to_string_pretty(&schema)
        .map_err(|e| Error::bug(format!("the schema has no JSON form: {e}")))?
        + "\n";
    let mut files = match &args.recipe {
        Some(name) => recipe(name, catalogue)?,
        None => vec![("workflow.yaml".to_string(), WORKFLOW.to_string())],
    };
    files.extend([("trainyard.yaml".to_string(), SITE.to_string()), ("schema.json".to_string(), schema)]);
    let quick = if args.recipe.is_some() { " -p size=quick" } else { "" };
    let next = format!("{}trainyard run workflow.yaml{quick}", change_folder(&args.folder)?);
    write(args, files, next)
}

/// Returns `cd FOLDER && `, or an empty text for the working directory: the site file is searched from there on.
fn change_folder(folder: &Path) -> Result<String> {
    let working = compiled::working_directory()?;
    if absolute(&working, &folder.to_string_lossy()) == working {
        return Ok(String::new());
    }
    Ok(format!("cd {} && ", word(&folder.to_string_lossy())))
}

/// Returns the name and the text of an adapter.
fn adapter_file(adapter: AdapterPackage) -> (String, String) {
    let (name, text) = match adapter {
        AdapterPackage::Gymnasium => {
            ("gymnasium", include_str!("../../../../python/adapters/gymnasium_environment.py"))
        }
        AdapterPackage::OpenEnv => ("openenv", include_str!("../../../../python/adapters/openenv_environment.py")),
        AdapterPackage::TextWorld => {
            ("textworld", include_str!("../../../../python/adapters/textworld_environment.py"))
        }
        AdapterPackage::Verifiers => {
            ("verifiers", include_str!("../../../../python/adapters/verifiers_environment.py"))
        }
    };
    (format!("{name}_environment.py"), text.to_string())
}

/// Writes the files that do not exist, and prints `next`. Errors: invalid (a file exists with another content, or all
/// files exist), and those of the disk. Then no file is written.
fn write(args: &InitArgs, files: Vec<(String, String)>, next: String) -> Result<CliExit> {
    let first = files.first().map(|(name, _)| args.folder.join(name));
    let mut missing = Vec::new();
    for (name, content) in files {
        let path = args.folder.join(&name);
        if !path.exists() {
            missing.push((name, content));
        } else if std::fs::read(&path).ok().as_deref() != Some(content.as_bytes()) {
            let error = Error::invalid(format!("{} exists already, with another content", path.display()));
            return Err(error.help("name an empty folder, or move the file away"));
        }
    }
    if let (true, Some(path)) = (missing.is_empty(), first) {
        let error = Error::invalid(format!("{} exists already, like all other files", path.display()));
        return Err(error.help("name an empty folder"));
    }
    std::fs::create_dir_all(&args.folder).map_err(|e| io_error(&args.folder, &e))?;
    let mut wrote = Vec::new();
    for (name, content) in missing {
        let path = args.folder.join(name);
        std::fs::write(&path, content).map_err(|e| io_error(&path, &e))?;
        wrote.push(path.display().to_string());
    }
    match args.format {
        OutputFormat::Json => print_json(&json!({"wrote": wrote, "next": next}))?,
        OutputFormat::Text => {
            wrote.iter().for_each(|path| print_text(&format!("wrote {path}")));
            print_text(&format!("\nnext: {next}"));
        }
    }
    Ok(CliExit::Done)
}

/// Returns a systemd unit and a Containerfile for this folder and this program.
fn serve(folder: &Path) -> Result<Vec<(String, String)>> {
    let folder = absolute(&compiled::working_directory()?, &folder.to_string_lossy());
    let program = wiring::program()?;
    let user = std::env::var("USER").unwrap_or_else(|_| "trainyard".to_string());
    let unit = UNIT
        .replace("@folder@", &folder.display().to_string())
        .replace("@program@", &program.display().to_string())
        .replace("@user@", &user);
    Ok(vec![("trainyard.service".to_string(), unit), ("Containerfile".to_string(), CONTAINER.to_string())])
}

/// Returns a shipped recipe as `workflow.yaml`, with the files that it embeds. Each file has its parents merged in, so
/// that readers need no other file.
fn recipe(name: &str, catalogue: &Catalogue) -> Result<Vec<(String, String)>> {
    let working_directory = compiled::working_directory()?;
    let library = Library::open(None, &working_directory)?;
    let mut names: Vec<(PathBuf, String)> = vec![(library.recipe(name)?.path.clone(), "workflow.yaml".into())];
    let mut files = Vec::new();
    while let Some((path, name)) = names.get(files.len()).cloned() {
        let mut place = |target: &Path| format!("./{}", unique_name(&mut names, target));
        let found = merged(&ShippedFiles, catalogue, &path, &working_directory, &mut place);
        let text = found.text.ok_or_else(|| Error::bug(format!("the shipped file {} is broken", path.display())))?;
        files.push((name, format!("{SCHEMA_LINE}{text}")));
    }
    Ok(files)
}

/// Returns the file name for `target`. A new target gets an unused name, which is recorded.
fn unique_name(names: &mut Vec<(PathBuf, String)>, target: &Path) -> String {
    if let Some((_, name)) = names.iter().find(|(path, _)| path == target) {
        return name.clone();
    }
    let stem = target.file_stem().unwrap_or_default().to_string_lossy();
    let numbered = (2..).map(|n| format!("{stem}-{n}.yaml"));
    let mut candidates = std::iter::once(format!("{stem}.yaml")).chain(numbered);
    let taken = |name: &String| name == "trainyard.yaml" || names.iter().any(|(_, known)| known == name);
    let name = candidates.find(|name| !taken(name)).unwrap_or_default();
    names.push((target.to_path_buf(), name.clone()));
    name
}
