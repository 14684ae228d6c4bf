//! Embeds the recipes in the binary, as files of a virtual folder.
//!
//! Their paths are absolute, like all paths of a plan, so a run of a recipe can be resumed from its journal.

use std::path::{Path, PathBuf};
use trainyard_core::{Digest, Error, Result};
use trainyard_hub::{Hub, HubLocation, HubSettings, RepositoryKind, SCHEME};
use trainyard_spec::{FileSystem, LocalFileSystem, SourceForm};

/// Folder of the shipped recipes.
pub const FOLDER: &str = "/trainyard:/recipes";

/// Paths below [`FOLDER`] with their texts, sorted; written by `build.rs`.
const RECIPES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/recipes.rs"));

/// File system of the shipped files and the local disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShippedFiles;

impl FileSystem for ShippedFiles {
    fn read(&self, path: &Path) -> Result<String> {
        match name(path) {
            None => LocalFileSystem.read(path),
            Some(name) => text(name).map(str::to_string).ok_or_else(|| {
                Error::invalid(format!("{} is not a file of this build", path.display()))
                    .help("`trainyard recipes` lists the recipes of this build")
            }),
        }
    }
    fn exists(&self, path: &Path) -> bool {
        name(path).map_or_else(|| LocalFileSystem.exists(path), |name| text(name).is_some())
    }
    fn is_file(&self, path: &Path) -> bool {
        name(path).map_or_else(|| LocalFileSystem.is_file(path), |name| text(name).is_some())
    }
    /// Pins URLs of repositories on the hub, the only URLs that stages read in this build.
    fn pin(&self, url: &str, form: SourceForm) -> Result<String> {
        if !url.starts_with(SCHEME) {
            return LocalFileSystem.pin(url, form);
        }
        let kind = if form == SourceForm::Model { RepositoryKind::Model } else { RepositoryKind::Dataset };
        Ok(Hub::new(HubSettings::from_env()).pin(&HubLocation::read_as(kind, url)?)?.to_string())
    }
    /// Rejects shipped files, since stages read sources from a disk.
    fn digest(&self, location: &str) -> Result<Digest> {
        if name(Path::new(location)).is_none() {
            return LocalFileSystem.digest(location);
        }
        Err(Error::invalid(format!("{location}: a shipped recipe cannot be the source of a stage"))
            .help("write the recipe to a folder first: `trainyard init --recipe NAME FOLDER`"))
    }
}

/// Returns the paths of all shipped files, sorted.
pub fn paths() -> impl Iterator<Item = PathBuf> {
    RECIPES.iter().map(|(name, _)| Path::new(FOLDER).join(name))
}

fn name(path: &Path) -> Option<&str> {
    path.strip_prefix(FOLDER).ok()?.to_str()
}

fn text(name: &str) -> Option<&'static str> {
    RECIPES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_files_equal_those_on_disk() {
        let folder = Path::new("../../workflows/recipes").canonicalize().unwrap();
        for path in paths() {
            let on_disk = folder.join(path.strip_prefix(FOLDER).unwrap());
            assert_eq!(ShippedFiles.read(&path).unwrap(), std::fs::read_to_string(on_disk).unwrap());
        }
        assert!(paths().any(|p| p.ends_with("filters-and-curricula/simpletir.yaml")));
        assert!(!ShippedFiles.exists(&Path::new(FOLDER).join("absent.yaml")));
        assert!(ShippedFiles.exists(&folder), "other paths are on disk");
    }
}
