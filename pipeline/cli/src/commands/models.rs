//! Resolves a model that a command names: a folder, a model on the hub, or an artifact.

use super::artifacts::fetch;
use crate::session::AppSession;
use std::path::Path;
use trainyard_api::InputArtifact;
use trainyard_app::{ScratchFolder, trial};
use trainyard_core::{ArtifactKind, Error, Result};
use trainyard_lm::stages::init::base_model::{base_model, is_on_hub};
use trainyard_views::find;

/// A model, with the scratch folder that holds it if it was fetched.
pub struct ResolvedModel {
    pub input: InputArtifact,
    _folder: Option<ScratchFolder>,
}

/// Finds the model in a folder, or fetches it from the hub or an artifact. Errors: invalid (none of them exists,
/// or the artifact is not a model), and those of the store.
pub fn find(session: &AppSession, name: &str) -> Result<ResolvedModel> {
    let path = Path::new(name);
    if path.is_dir() {
        return Ok(ResolvedModel { input: trial::model_in(path)?, _folder: None });
    }
    if is_on_hub(name) {
        let folder = base_model(name, |name| std::env::var(name).ok(), || Ok(()))?;
        return Ok(ResolvedModel { input: trial::model_in(&folder)?, _folder: None });
    }
    if !name.contains('/') || path.is_absolute() || name.starts_with('.') {
        return Err(Error::invalid(format!("there is no folder {name}"))
            .help("name the folder of a model, or an artifact such as `latest/sft/model`"));
    }
    let found = session.block_on(find::artifact(&session.store, name))?;
    let output = found.output();
    if output.kind != ArtifactKind::Model {
        return Err(Error::invalid(format!("{name} is a {}, not a model", output.kind))
            .help("name an artifact of kind model, such as `latest/sft/model`"));
    }
    let (digest, metadata) = (output.digest.clone(), output.metadata.clone());
    let folder = fetch::files(session, &found)?;
    let input = InputArtifact { digest, metadata, ..trial::model_in(folder.path())? };
    Ok(ResolvedModel { input, _folder: Some(folder) })
}
