//! Data sets of the Hugging Face hub as sources of a stage: `hf://datasets/OWNER/NAME[@REVISION][/PATH]`.
//!
//! A revision is resolved to its commit when a plan is made, so that a digest means the same bytes for ever; an attempt
//! fetches files of that commit into the cache that `huggingface_hub` has, and takes what lies there already. The crate
//! `hf-hub` would bring a second copy of the TLS stack; this is the part of the interface that is needed, on the client
//! that the house has (`docs/design/0024`).
#![warn(missing_docs)]

mod cache;
mod client;
mod location;
mod settings;
#[cfg(test)]
mod tests;

pub use location::Location;
pub use settings::Settings;

use cache::Cache;
use client::Client;
use std::path::PathBuf;
use trainyard_core::{Error, Result};

/// How locations of the hub begin.
pub const SCHEME: &str = "hf://";

/// The hub with the cache in front of it.
pub struct Hub {
    settings: Settings,
    cache: Cache,
}

impl Hub {
    /// The hub that the settings name.
    pub fn new(settings: Settings) -> Self {
        Self { cache: Cache::at(settings.cache.clone()), settings }
    }
    /// The location at the commit that its revision names now. Asks the hub, or offline the cache; a commit is its own.
    ///
    /// Errors: invalid (no such data set, revision or access; not in the cache, offline), retryable (no answer).
    pub fn pin(&self, location: &Location) -> Result<Location> {
        if location.is_pinned() {
            return Ok(location.clone());
        }
        let commit = if self.settings.offline {
            self.cache.commit(location).ok_or_else(|| self.not_cached(location))?
        } else {
            let commit = wait(self.client()?.commit(location))?;
            self.cache.note(location, &commit)?;
            commit
        };
        Ok(location.at(&commit))
    }
    /// The files of a pinned location below its path, sorted; offline those that are in the cache.
    pub fn files(&self, location: &Location) -> Result<Vec<String>> {
        let mut names = if self.settings.offline {
            self.cache.files(location).ok_or_else(|| self.not_cached(location))?
        } else {
            wait(self.client()?.files(location))?
        };
        names.sort();
        Ok(names)
    }
    /// A file of a pinned location, by its path in the data set: from the cache, else fetched into it.
    pub fn fetch(&self, location: &Location, name: &str) -> Result<PathBuf> {
        let path = self.cache.file(location, name)?;
        if path.is_file() {
            return Ok(path);
        }
        if self.settings.offline {
            return Err(self.not_cached(location));
        }
        let client = self.client()?;
        self.cache.store(location, name, |file| wait(client.download(location, name, file)))
    }

    fn client(&self) -> Result<Client> {
        Client::new(&self.settings)
    }
    fn not_cached(&self, location: &Location) -> Error {
        Error::invalid(format!(
            "{location} is not in the cache {}, and HF_HUB_OFFLINE is set",
            self.settings.cache.display()
        ))
        .help("run once with HF_HUB_OFFLINE unset, or download the files and give their path")
    }
}

/// Waits for an answer. On a thread of its own, since callers may be inside of a runtime.
fn wait<T: Send>(answer: impl Future<Output = Result<T>> + Send) -> Result<T> {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|e| Error::bug(format!("no runtime: {e}")))?.block_on(answer)
    };
    std::thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|_| Err(Error::bug("a request panicked")))
}
