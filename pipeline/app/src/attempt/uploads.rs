//! Sources that travel with an attempt: their files come from objects of the store, and the config names the places
//! where they lie now.
//!
//! A file keeps its own name, since programs look at endings, and what begins like a program may be executed: objects
//! have no permissions, and `run: ./train.sh` should mean the same everywhere.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::error::{Context as _, io_error};
use trainyard_core::source::Glob;
use trainyard_core::{Error, FileEntry, Result};
use trainyard_spec::run_stage::KIND as RUN_KIND;
use trainyard_store::{FetchMode, Store};

/// The path of a source where the plan was made → where its copy lies.
pub type Places = BTreeMap<String, PathBuf>;

/// Fetches the files of every uploaded source to `<folder>/<n>/<base name>`.
pub async fn fetch(store: &Store, spec: &AttemptSpec, folder: &Path) -> Result<Places> {
    // A program must be a file of its own, since its permissions are changed.
    let copied = spec.kind == RUN_KIND;
    let mode = if copied { FetchMode::Copy } else { FetchMode::Link };
    let mut places = Places::new();
    for (number, (source, files)) in spec.uploaded.iter().enumerate() {
        let place = fetch_one(store, source, files, &folder.join(number.to_string()), mode)
            .await
            .at(format!("the source {source}"))?;
        if copied {
            files.iter().try_for_each(|file| make_executable(&path_of(&place, file)))?;
        }
        places.insert(source.clone(), place);
    }
    Ok(places)
}

async fn fetch_one(
    store: &Store,
    source: &str,
    files: &[FileEntry],
    folder: &Path,
    mode: FetchMode,
) -> Result<PathBuf> {
    let name = match Glob::of(Path::new(source)) {
        // A folder that is called like a pattern: all files in it are meant.
        Ok(Some(_)) if !files.iter().any(|file| file.path.is_empty()) => Some("*"),
        _ => Path::new(source).file_name().and_then(|name| name.to_str()),
    };
    let name =
        name.ok_or_else(|| Error::invalid("it has no name of its own").help("name a file or a folder below it"))?;
    let place = folder.join(name);
    if let [file] = files
        && file.path.is_empty()
    {
        let named = FileEntry { path: name.to_string(), ..file.clone() };
        store.fetch_files(&[named], folder, mode).await?;
    } else {
        std::fs::create_dir_all(&place).map_err(|e| io_error(&place, &e))?;
        store.fetch_files(files, &place, mode).await?;
    }
    Ok(place)
}

/// Of a source that is one file, the place is the file.
fn path_of(place: &Path, file: &FileEntry) -> PathBuf {
    if file.path.is_empty() { place.to_path_buf() } else { place.join(&file.path) }
}

/// Lets a script or a program be executed by its path.
fn make_executable(file: &Path) -> Result<()> {
    let mut first = Vec::new();
    let opened = std::fs::File::open(file).and_then(|opened| {
        opened.take(4).read_to_end(&mut first)?;
        std::fs::metadata(file)
    });
    let meta = opened.map_err(|e| io_error(file, &e))?;
    if first.starts_with(b"#!") || first == *b"\x7fELF" {
        let mode = meta.permissions().mode() | 0o111;
        std::fs::set_permissions(file, Permissions::from_mode(mode)).map_err(|e| io_error(file, &e))?;
    }
    Ok(())
}

/// The spec for this machine: in its config, every text that is the path of an uploaded source is where its copy lies.
/// A text that only contains such a path stays.
pub fn localize(spec: &AttemptSpec, places: &Places) -> AttemptSpec {
    let mut here = spec.clone();
    if !places.is_empty() {
        replace(&mut here.config, places);
    }
    here
}

fn replace(value: &mut Value, places: &Places) {
    match value {
        Value::String(text) => {
            if let Some(place) = places.get(text) {
                *text = place.display().to_string();
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| replace(inner, places)),
        Value::Object(map) => map.values_mut().for_each(|inner| replace(inner, places)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
