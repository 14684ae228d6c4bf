//! Publishes weights to a server: writes them to a folder that the server can read and requests that the server load
//! them.

use super::dialect::WeightUpdateApi;
use super::options::WeightTransferOptions;
use super::weight_lock::LoadedWeights;
use crate::adapter::{Adapter, peft};
use crate::backend::Parameters;
use crate::folder::ModelFolder;
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_http::HttpClient;

/// Prefix of the folders of versions.
const PREFIX: &str = "trainyard-weights-";

/// Publisher of a model's weights to a server.
pub struct WeightPublisher {
    /// Config without weights, which every version brings.
    model: ModelFolder,
    folder: PathBuf,
    seen_as: String,
    update_api: &'static dyn WeightUpdateApi,
}

impl WeightPublisher {
    /// Creates a publisher of versions of `model`.
    pub fn new(model: &ModelFolder, options: &WeightTransferOptions, update_api: &'static dyn WeightUpdateApi) -> Self {
        let weights = crate::decoder::Weights::new();
        Self {
            model: ModelFolder { weights, ..model.clone() },
            folder: PathBuf::from(&options.folder),
            seen_as: options.seen_as.clone().unwrap_or_else(|| options.folder.clone()),
            update_api,
        }
    }
    /// Publishes the model folder's own weights as version 0.
    pub fn publish_initial(
        &self,
        client: &HttpClient,
        model: &ModelFolder,
        before: &LoadedWeights,
    ) -> Result<LoadedWeights> {
        self.transfer(client, 0, before, |folder| match &model.adapter {
            Some(adapter) => peft::save(folder, &model.config, adapter),
            None => model.save(folder),
        })
    }
    /// Publishes a learner's weights as `version`.
    pub fn publish(
        &self,
        client: &HttpClient,
        weights: &Parameters,
        version: u32,
        before: &LoadedWeights,
    ) -> Result<LoadedWeights> {
        self.transfer(client, version, before, |folder| match &self.model.adapter {
            Some(adapter) => {
                let adapter = Adapter { tensors: weights.to_weights()?, ..adapter.clone() };
                peft::save(folder, &self.model.config, &adapter)
            }
            None => self.model.with_parameters(weights)?.save(folder),
        })
    }

    fn transfer(
        &self,
        client: &HttpClient,
        version: u32,
        before: &LoadedWeights,
        write: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<LoadedWeights> {
        let name = format!("{PREFIX}{version}");
        let folder = self.folder.join(&name);
        let written = recreate_folder(&folder).and_then(|()| write(&folder));
        written.map_err(|e| e.at("weights for the server"))?;
        let seen = format!("{}/{name}", self.seen_as.trim_end_matches('/'));
        let adapter = match &self.model.adapter {
            Some(_) => Some(self.load_adapter(client, version, &seen, before)?),
            None => {
                for request in self.update_api.reload(&seen, version) {
                    self.expect(client.request(request).map_err(Error::from), &seen)?;
                }
                None
            }
        };
        self.clear(&name);
        Ok(LoadedWeights { version, adapter, from_stage: true })
    }
    /// Loads an adapter and returns its name on the server. First unloads the previous version and any adapter of the
    /// same name that an earlier stage left.
    fn load_adapter(&self, client: &HttpClient, version: u32, seen: &str, before: &LoadedWeights) -> Result<String> {
        let name = format!("trainyard-{version}");
        let old = before.adapter.as_ref().filter(|_| before.from_stage);
        for unloaded in std::iter::once(&name).chain(old) {
            // The adapter may be absent.
            let _ = client.request(self.update_api.unload_adapter(unloaded));
        }
        self.expect(client.request(self.update_api.load_adapter(&name, seen)).map_err(Error::from), seen)?;
        Ok(name)
    }
    fn expect(&self, response: Result<serde_json::Value>, seen: &str) -> Result<()> {
        let done = response.and_then(|response| self.update_api.check_response(&response));
        done.map_err(|mut e| {
            if e.help.is_none() || e.kind == trainyard_core::ErrorKind::Invalid {
                e = e.help(format!(
                    "let the server read {seen}, and start it so that it loads weights: vLLM with \
                     VLLM_SERVER_DEV_MODE=1, and for adapters --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"
                ));
            }
            e.at("new weights for the server")
        })
    }
    /// Removes the folders of versions other than `kept`, which the server has already read.
    fn clear(&self, kept: &str) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(PREFIX) && name != kept {
                // A folder that cannot be removed only takes space.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// Creates an empty folder in place of the remains of an earlier attempt.
fn recreate_folder(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(io_error(folder, &e)),
        _ => {}
    }
    std::fs::create_dir_all(folder).map_err(|e| io_error(folder, &e))
}
