//! Fetches a base model that an option names on the Hugging Face hub.

use std::path::{Path, PathBuf};
use trainyard_core::Result;
use trainyard_hub::{Hub, HubLocation, HubSettings, RepositoryKind, SCHEME, fetch_model};

/// Whether an option names a model on the hub. Plans replace names by such URLs.
pub fn is_on_hub(from: &str) -> bool {
    from.starts_with(SCHEME)
}

/// Returns the path of a base model: a path as it is, a model on the hub after its files are in the cache. Its family
/// is checked before its weights are fetched. Errors: invalid (no such model, an unsupported family); those of the hub
/// and of `go_on`, which is called before each file.
pub fn base_model(
    from: &str,
    variable: impl Fn(&str) -> Option<String>,
    go_on: impl Fn() -> Result<()>,
) -> Result<PathBuf> {
    if !is_on_hub(from) {
        return Ok(PathBuf::from(from));
    }
    let location = HubLocation::read_as(RepositoryKind::Model, from)?;
    let check = |folder: &Path| crate::checkpoint::read_config(folder).map(|_| ()).map_err(|e| e.at(&location));
    fetch_model(&Hub::new(HubSettings::read(variable)), &location, check, go_on)
}
