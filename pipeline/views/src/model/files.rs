//! Reads the files of a model: small ones completely, those with tensors by their headers.

use super::parameters::ParameterCounts;
use crate::tensors::{StoredTensors, has_tensors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime::Handle;
use trainyard_core::{Error, ErrorKind, FileEntry, Output, Result};
use trainyard_store::Store;

/// Maximum size of a file that is read completely.
const MAX_TEXT: u64 = 256 << 20;
/// Name of a model's weights in one file.
const SINGLE: &str = "model.safetensors";

/// File that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnreadableFile {
    /// Path in the artifact's folder.
    pub path: String,
    /// Message that names the file.
    pub why: String,
}

/// Reads files of an output, and collects those that are missing or damaged.
pub struct ModelFiles<'a> {
    /// Files that could not be read.
    pub unreadable: Vec<UnreadableFile>,
    store: &'a Store,
    output: &'a Output,
}

impl<'a> ModelFiles<'a> {
    /// Creates a reader that has read nothing.
    pub fn new(store: &'a Store, output: &'a Output) -> Self {
        Self { unreadable: Vec::new(), store, output }
    }
    /// Returns whether the artifact has a file.
    pub fn has(&self, path: &str) -> bool {
        self.output.files.iter().any(|file| file.path == path)
    }
    /// Reads a text; `None` if the file does not exist or is unreadable. Errors: those of the store.
    pub async fn text(&mut self, path: &str) -> Result<Option<String>> {
        let output = self.output;
        let Some(file) = output.files.iter().find(|file| file.path == path) else { return Ok(None) };
        let read = read_text(self.store, file).await;
        self.checked(path, read.map_err(|error| error.at(format!("file `{path}`"))))
    }
    /// Reads a JSON document as [`Self::text`].
    pub async fn json(&mut self, path: &str) -> Result<Option<Value>> {
        let Some(text) = self.text(path).await? else { return Ok(None) };
        let read = serde_json::from_str(&text);
        self.checked(path, read.map_err(|e| Error::data(format!("file `{path}`: not valid JSON: {e}"))))
    }
    /// Counts the parameters in `files`; `None` without such a file, and if one of them is unreadable. Errors: those of
    /// the store.
    pub async fn parameters(&mut self, files: Vec<FileEntry>) -> Result<Option<ParameterCounts>> {
        let Some(first) = files.first().map(|file| file.path.clone()) else { return Ok(None) };
        let read = read_headers(self.store, files).await;
        self.checked(&first, read)
    }
    /// Returns a value that was read, or adds the file to those that could not be.
    pub fn checked<T>(&mut self, path: &str, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error) if matches!(error.kind, ErrorKind::Data | ErrorKind::Lost | ErrorKind::Invalid) => {
                self.unreadable.push(UnreadableFile { path: path.to_string(), why: error.to_string() });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

async fn read_text(store: &Store, file: &FileEntry) -> Result<String> {
    if file.size > MAX_TEXT {
        return Err(Error::data(format!("it has {} bytes, more than is read of such a file", file.size))
            .help("look at it with `trainyard artifacts export`"));
    }
    let bytes = store.read_object(&file.digest).await?;
    String::from_utf8(bytes.to_vec()).map_err(|e| Error::data(format!("not UTF-8: {e}")))
}

async fn read_headers(store: &Store, files: Vec<FileEntry>) -> Result<ParameterCounts> {
    store.require_objects(&files).await?;
    let (store, runtime) = (store.clone(), Handle::current());
    let work = move || StoredTensors::open(&store, &files, &runtime).map(|tensors| ParameterCounts::of(&tensors));
    let counted = tokio::task::spawn_blocking(work).await;
    counted.map_err(|e| Error::bug(format!("counting parameters ended early: {e}")))?
}

/// Returns the files with the weights of a folder, which is empty or ends in `/`: `model.safetensors`, else its shards,
/// else all files with tensors except `adapter`.
pub fn weight_files(output: &Output, folder: &str, adapter: &str) -> Vec<FileEntry> {
    let in_folder = |file: &&FileEntry| {
        let name = file.path.strip_prefix(folder).filter(|name| !name.contains('/'));
        name.is_some_and(|name| has_tensors(name) && name != adapter)
    };
    let all: Vec<&FileEntry> = output.files.iter().filter(in_folder).collect();
    let named = |is_chosen: fn(&str) -> bool| -> Vec<FileEntry> {
        all.iter().filter(|file| is_chosen(&file.path[folder.len()..])).map(|file| (*file).clone()).collect()
    };
    let choices: [fn(&str) -> bool; 3] = [|name| name == SINGLE, |name| name.starts_with("model-"), |_| true];
    choices.into_iter().map(named).find(|files| !files.is_empty()).unwrap_or_default()
}
