//! Fetches the files of a model repository that a model folder consists of.

use crate::{Hub, HubFile, HubLocation};
use std::path::{Path, PathBuf};
use trainyard_core::{Error, Result};

const CONFIG: &str = "config.json";
/// Other files of a model folder, in the root of the repository.
const SMALL: [&str; 10] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
];
const WEIGHTS: &str = ".safetensors";
const INDEX: &str = ".safetensors.index.json";

/// Fetches a model, or the one file that the location names. Returns the folder or the file in the cache.
///
/// `check_folder` sees the folder when it holds all but the weights, and may refuse the model before they are fetched.
/// Calls `go_on` before each file and stops if it fails. Errors: invalid (no model folder, no such file); those of the
/// hub and of both functions.
pub fn fetch_model(
    hub: &Hub,
    location: &HubLocation,
    check_folder: impl Fn(&Path) -> Result<()>,
    go_on: impl Fn() -> Result<()>,
) -> Result<PathBuf> {
    let location = hub.pin(location)?;
    let files = hub.files(&location)?;
    let fetch = |file: &HubFile| {
        go_on()?;
        hub.fetch(&location, file)
    };
    let named = |name: &str| files.iter().find(|file| file.name == name);
    if !location.path.is_empty() {
        let absent = || {
            Error::invalid(format!("{location}: the repository has no such file"))
                .help("name a GGUF file, or leave the path out for the model folder")
        };
        return fetch(named(&location.path).ok_or_else(absent)?);
    }
    let config = named(CONFIG).ok_or_else(|| {
        Error::invalid(format!("{location}: the repository has no {CONFIG}"))
            .help("name a repository with config.json and *.safetensors; of a GGUF file, add its path")
    })?;
    let config = fetch(config)?;
    let folder = config.parent().map(Path::to_path_buf).unwrap_or_default();
    for file in files.iter().filter(|file| SMALL.contains(&file.name.as_str())) {
        fetch(file)?;
    }
    check_folder(&folder)?;
    let weights: Vec<&HubFile> = files.iter().filter(|file| is_weights(&file.name)).collect();
    if !weights.iter().any(|file| file.name.ends_with(WEIGHTS)) {
        return Err(Error::invalid(format!("{location}: the repository has no *{WEIGHTS}"))
            .help("choose a repository with weights in safetensors"));
    }
    weights.into_iter().try_for_each(|file| fetch(file).map(|_| ()))?;
    Ok(folder)
}

/// Whether a file of the repository's root holds weights or their index.
fn is_weights(name: &str) -> bool {
    !name.contains('/') && (name.ends_with(WEIGHTS) || name.ends_with(INDEX))
}
