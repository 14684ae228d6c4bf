//! Fetches the sources that were uploaded with an attempt, and replaces their paths in the config by local paths.
//!
//! A file keeps its name, since programs check extensions. A script or program becomes executable, since objects have
//! no permissions and `run: ./train.sh` must work on every machine.

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

/// Local paths of the copies, by the source's path on the planning machine.
pub type UploadPaths = BTreeMap<String, PathBuf>;

/// Fetches the files of every uploaded source to `<folder>/<n>/<base name>`, and returns the local paths.
pub async fn fetch(store: &Store, spec: &AttemptSpec, folder: &Path) -> Result<UploadPaths> {
    // Programs of commands must be copies, since their permissions are changed.
    let copied = spec.kind == RUN_KIND;
    let mode = if copied { FetchMode::Copy } else { FetchMode::Link };
    let mut places = UploadPaths::new();
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
        // A source that is a pattern becomes a folder with the name of the pattern, which holds all its files.
        Ok(Some(_)) if !files.iter().any(|file| file.path.is_empty()) => Some("*"),
        _ => Path::new(source).file_name().and_then(|name| name.to_str()),
    };
    let name =
        name.ok_or_else(|| Error::invalid("the path has no base name").help("name a file or a folder below it"))?;
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

/// Returns the local path of a file. If the source is one file, this is `place` itself.
fn path_of(place: &Path, file: &FileEntry) -> PathBuf {
    if file.path.is_empty() { place.to_path_buf() } else { place.join(&file.path) }
}

/// Makes a script or an ELF program executable; leaves other files unchanged.
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

/// Returns the spec with local paths: every text of the config that equals the path of an uploaded source is replaced
/// by the path of its copy. A text that only contains such a path is unchanged.
pub fn localize(spec: &AttemptSpec, places: &UploadPaths) -> AttemptSpec {
    let mut localized = spec.clone();
    if !places.is_empty() {
        replace(&mut localized.config, places);
    }
    localized
}

fn replace(value: &mut Value, places: &UploadPaths) {
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
