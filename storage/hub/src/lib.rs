//! Resolves and fetches data sets and models of the Hugging Face hub, which are sources of a stage:
//! `hf://datasets/OWNER/NAME[@REVISION][/PATH]`, `hf://OWNER/NAME[@REVISION][/PATH]`.
//!
//! A plan pins the revision to its commit, so that a digest always means the same bytes. An attempt fetches the files
//! of that commit into the cache of `huggingface_hub`, unless the cache contains them. The crate `hf-hub` would add a
//! second copy of the TLS stack; this crate implements the required part of the interface with the HTTP client of the
//! workspace (`docs/design/0024`).

mod cache;
mod client;
mod location;
mod model;
mod settings;
#[cfg(test)]
mod tests;

pub use client::HubFile;
pub use location::{HubLocation, RepositoryKind};
pub use model::fetch_model;
pub use settings::HubSettings;

use cache::HubCache;
use client::HubClient;
use std::path::PathBuf;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Scheme of locations on the hub.
pub const SCHEME: &str = "hf://";

/// The hub with its local cache.
pub struct Hub {
    settings: HubSettings,
    cache: HubCache,
}

impl Hub {
    /// Connects to the hub of the settings.
    pub fn new(settings: HubSettings) -> Self {
        Self { cache: HubCache::at(settings.cache.clone()), settings }
    }
    /// Returns the location at the present commit of its revision, from the hub or, offline, from the cache; a commit
    /// resolves to itself.
    ///
    /// Errors: invalid (no such repository, revision or access; not in the cache, offline), retryable (no response).
    pub fn pin(&self, location: &HubLocation) -> Result<HubLocation> {
        if location.is_pinned() {
            return Ok(location.clone());
        }
        let commit = if self.settings.offline {
            self.cache.commit(location).ok_or_else(|| self.not_cached(location))?
        } else {
            let commit = wait(self.client()?.commit(location))?;
            self.cache.record_commit(location, &commit)?;
            commit
        };
        Ok(location.at(&commit))
    }
    /// Returns all files of the repository of a pinned location, sorted by name; offline those in the cache.
    pub fn files(&self, location: &HubLocation) -> Result<Vec<HubFile>> {
        let mut files: Vec<HubFile> = if self.settings.offline {
            let names = self.cache.files(location).ok_or_else(|| self.not_cached(location))?;
            names.into_iter().map(HubFile::named).collect()
        } else {
            wait(self.client()?.files(location))?
        };
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }
    /// Returns a file of a pinned location: from the cache, else fetched into it, with size, SHA-256 and ETag as
    /// listed.
    pub fn fetch(&self, location: &HubLocation, file: &HubFile) -> Result<PathBuf> {
        let name = file.name.as_str();
        let path = self.cache.file(location, name)?;
        if path.is_file() {
            return Ok(path);
        }
        if self.settings.offline {
            return Err(self.not_cached(location));
        }
        let client = self.client()?;
        self.cache.store(location, name, |target| {
            let digest = wait(client.download(location, file, target))?;
            let size = target.metadata().map_err(|e| io_error(&path, &e))?.len();
            file.check(location, size, &digest)?;
            Ok(digest)
        })
    }

    fn client(&self) -> Result<HubClient> {
        HubClient::new(&self.settings)
    }
    fn not_cached(&self, location: &HubLocation) -> Error {
        Error::invalid(format!(
            "{location} is not in the cache {}, and HF_HUB_OFFLINE is set",
            self.settings.cache.display()
        ))
        .help("run once with HF_HUB_OFFLINE unset, or download the files and give their path")
    }
}

/// Waits for a response on a separate thread, since callers may be inside of a runtime.
fn wait<T: Send>(request: impl Future<Output = Result<T>> + Send) -> Result<T> {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|e| Error::bug(format!("no runtime: {e}")))?.block_on(request)
    };
    std::thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|_| Err(Error::bug("a request panicked")))
}
