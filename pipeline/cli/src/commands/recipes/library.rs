//! Finds recipes in a library: the recipes in the binary, or those of a folder. Its subfolders are subjects.

use crate::shipped::{self, ShippedFiles};
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_spec::diagnostic::suggest;
use trainyard_spec::files::absolute;
use trainyard_spec::{FileSystem as _, Sources, yaml};

/// Recipe files of a library, with the files that they extend or embed.
pub struct Library {
    /// Name in messages.
    place: String,
    files: Vec<RecipeFile>,
}

/// One YAML file of a library.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecipeFile {
    /// Name of the file without `.yaml`.
    pub name: String,
    /// Folder of the file, if it is not the library's own folder.
    pub subject: Option<String>,
    /// Absolute path.
    pub path: PathBuf,
    /// Whether the file has the key `recipe` or cannot be read. Other files are parts of recipes.
    is_recipe: bool,
}

impl Library {
    /// Opens the library in `folder`, or that of this build. Errors: invalid (the folder does not exist).
    pub fn open(folder: Option<&Path>, working_directory: &Path) -> Result<Self> {
        let (place, root, paths) = match folder {
            None => ("this build".to_string(), PathBuf::from(shipped::FOLDER), shipped::paths().collect()),
            Some(folder) => {
                let root = absolute(working_directory, &folder.to_string_lossy());
                let mut paths = Vec::new();
                yaml_files(&root, &mut paths)?;
                (folder.display().to_string(), root, paths)
            }
        };
        let mut files: Vec<RecipeFile> = paths.into_iter().filter_map(|path| file(&root, path)).collect();
        files.sort();
        Ok(Self { place, files })
    }

    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns all recipes, sorted by name.
    pub fn recipes(&self) -> impl Iterator<Item = &RecipeFile> {
        self.files.iter().filter(|f| f.is_recipe)
    }

    /// Finds a recipe by name. Errors: invalid (no recipe or several recipes have this name).
    pub fn recipe(&self, name: &str) -> Result<&RecipeFile> {
        let mut found = self.recipes().filter(|f| f.name == name);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (Some(one), Some(other)) => {
                let paths = format!("{} and {}", one.path.display(), other.path.display());
                Err(Error::invalid(format!("two recipes are called `{name}`: {paths}")).help("rename one of them"))
            }
            (None, _) if self.files.iter().any(|f| f.name == name) => {
                Err(Error::invalid(format!("{name}: the file has no key `recipe`"))
                    .help("it is a part of recipes; `trainyard recipes` lists the recipes"))
            }
            (None, _) => {
                let error = Error::invalid(format!("there is no recipe `{name}` in {}", self.place));
                Err(suggest(name, self.recipes().map(|f| f.name.as_str())).into_iter().fold(error, Error::help))
            }
        }
    }
}

fn file(root: &Path, path: PathBuf) -> Option<RecipeFile> {
    let name = path.file_stem()?.to_str()?.to_string();
    let subject = path.parent().filter(|folder| *folder != root).and_then(|folder| folder.file_name());
    let subject = subject.map(|s| s.to_string_lossy().into_owned());
    let is_recipe = has_recipe(&path);
    Some(RecipeFile { name, subject, path, is_recipe })
}

fn has_recipe(path: &Path) -> bool {
    let Ok(text) = ShippedFiles.read(path) else { return true };
    let mut sources = Sources::default();
    let file = sources.add("", None, text);
    yaml::read(&sources, file).0.is_none_or(|tree| tree.get("recipe").is_some())
}

/// Adds all YAML files below a folder to `found`. Names that begin with a dot are skipped.
fn yaml_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let help = "name the folder of the recipes with `--folder`, or leave it out to use those of this build";
    for entry in std::fs::read_dir(folder).map_err(|e| io_error(folder, &e).help(help))? {
        let path = entry.map_err(|e| io_error(folder, &e))?.path();
        let hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.'));
        if path.is_dir() && !hidden {
            yaml_files(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") && !hidden {
            found.push(path);
        }
    }
    Ok(())
}
