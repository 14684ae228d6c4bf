//! Fetches files of a data set from the hub.

use super::files::{ImportFile, of_split};
use crate::import::format::ImportFormat;
use std::path::Path;
use trainyard_core::source::Glob;
use trainyard_core::{Error, Result};
use trainyard_hub::{Hub, HubFile, HubLocation};

/// Fetches the files that a location names: one file, the files that a pattern matches, or the files of a folder that
/// belong to the split. Calls `go_on` before each file and stops if it fails. Errors: invalid, if there are no files;
/// those of `go_on` and of the hub.
pub fn remote_files(
    hub: &Hub,
    location: &HubLocation,
    format: Option<&dyn ImportFormat>,
    split: &str,
    go_on: impl Fn() -> Result<()>,
) -> Result<Vec<ImportFile>> {
    let location = hub.pin(location)?;
    let files = hub.files(&location)?;
    let all = files.iter().map(|file| file.name.clone()).collect();
    let names = chosen(all, &location.path, format, split)?;
    if names.is_empty() {
        return Err(Error::invalid(format!("{location}: no file of rows of split `{split}` exists"))
            .help("give the path of a file or a folder in the data set, or a pattern; `split` chooses among files"));
    }
    let fetch = |name: String| {
        go_on()?;
        let listed = files.iter().find(|file| file.name == name).cloned();
        let listed = listed.unwrap_or_else(|| HubFile::named(name.clone()));
        Ok(ImportFile::new(hub.fetch(&location, &listed)?, name))
    };
    names.into_iter().map(fetch).collect()
}

/// Selects the wanted ones of all files of a data set. Returns their paths in its repository, sorted.
fn chosen(names: Vec<String>, path: &str, format: Option<&dyn ImportFormat>, split: &str) -> Result<Vec<String>> {
    if names.iter().any(|name| name == path) {
        return Ok(vec![path.to_string()]);
    }
    let glob = Glob::of(Path::new(path))?;
    let folder = glob.as_ref().map_or(path.to_string(), |glob| glob.folder().display().to_string());
    let below = |name: &String| match folder.as_str() {
        "" => Some(name.clone()),
        folder => name.strip_prefix(folder)?.strip_prefix('/').map(str::to_string),
    };
    let names: Vec<String> = names.iter().filter_map(below).collect();
    let names = match glob {
        Some(glob) => names.into_iter().filter(|name| glob.matches(name)).collect(),
        None => of_split(names, format, split),
    };
    let whole = |name: String| if folder.is_empty() { name } else { format!("{folder}/{name}") };
    Ok(names.into_iter().map(whole).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_patterns_and_folders_choose_files() {
        let names = || {
            ["README.md", "main/test-0.parquet", "main/train-0.parquet", "main/train-1.parquet", "x/train-0.parquet"]
                .map(String::from)
                .to_vec()
        };
        let of = |path: &str, split: &str| chosen(names(), path, None, split).unwrap();
        assert_eq!(of("main/test-0.parquet", "train"), ["main/test-0.parquet"]);
        let trains = ["main/train-0.parquet", "main/train-1.parquet"];
        assert_eq!(of("main", "train"), trains);
        assert_eq!(of("main/train-*", "test"), trains);
        assert_eq!(of("", "test"), ["main/test-0.parquet"]);
        assert_eq!(of("mai", "train"), [] as [String; 0], "a folder is a whole name");
    }
}
