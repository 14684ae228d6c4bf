//! Weight updates of a server: a folder that it can read, and the request to load it.

use super::dialect::HandOver;
use super::gate::Loaded;
use super::options::Weights;
use crate::adapter::{Adapter, peft};
use crate::backend::Parameters;
use crate::folder::ModelFolder;
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_http::Desk;

/// Prefix of the folders of versions.
const PREFIX: &str = "trainyard-weights-";

/// Sender of a model's weights to a server.
pub struct Courier {
    /// Config without weights, which every version brings.
    model: ModelFolder,
    folder: PathBuf,
    seen_as: String,
    hand_over: &'static dyn HandOver,
}

impl Courier {
    /// Creates a courier of versions of `model`.
    pub fn new(model: &ModelFolder, options: &Weights, hand_over: &'static dyn HandOver) -> Self {
        let weights = crate::decoder::Weights::new();
        Self {
            model: ModelFolder { weights, ..model.clone() },
            folder: PathBuf::from(&options.folder),
            seen_as: options.seen_as.clone().unwrap_or_else(|| options.folder.clone()),
            hand_over,
        }
    }
    /// Loads the folder's own weights, as version 0.
    pub fn first(&self, desk: &Desk, model: &ModelFolder, before: &Loaded) -> Result<Loaded> {
        self.bring(desk, 0, before, |folder| match &model.adapter {
            Some(adapter) => peft::save(folder, &model.config, adapter),
            None => model.save(folder),
        })
    }
    /// Loads a learner's weights.
    pub fn next(&self, desk: &Desk, weights: &Parameters, version: u32, before: &Loaded) -> Result<Loaded> {
        self.bring(desk, version, before, |folder| match &self.model.adapter {
            Some(adapter) => {
                let adapter = Adapter { tensors: weights.to_weights()?, ..adapter.clone() };
                peft::save(folder, &self.model.config, &adapter)
            }
            None => self.model.with_parameters(weights)?.save(folder),
        })
    }

    fn bring(
        &self,
        desk: &Desk,
        version: u32,
        before: &Loaded,
        write: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Loaded> {
        let name = format!("{PREFIX}{version}");
        let folder = self.folder.join(&name);
        let written = fresh(&folder).and_then(|()| write(&folder));
        written.map_err(|e| e.at("weights for the server"))?;
        let seen = format!("{}/{name}", self.seen_as.trim_end_matches('/'));
        let adapter = match &self.model.adapter {
            Some(_) => Some(self.load_adapter(desk, version, &seen, before)?),
            None => {
                for call in self.hand_over.reload(&seen, version) {
                    self.expect(desk.ask(call).map_err(Error::from), &seen)?;
                }
                None
            }
        };
        self.clear(&name);
        Ok(Loaded { version, adapter, ours: true })
    }
    /// Loads an adapter under its name on the server. The previous version is unloaded first, and so is an adapter of
    /// that name left by an earlier stage.
    fn load_adapter(&self, desk: &Desk, version: u32, seen: &str, before: &Loaded) -> Result<String> {
        let name = format!("trainyard-{version}");
        let old = before.adapter.as_ref().filter(|_| before.ours);
        for gone in std::iter::once(&name).chain(old) {
            // The adapter may be absent.
            let _ = desk.ask(self.hand_over.unload_adapter(gone));
        }
        self.expect(desk.ask(self.hand_over.load_adapter(&name, seen)).map_err(Error::from), seen)?;
        Ok(name)
    }
    fn expect(&self, answer: Result<serde_json::Value>, seen: &str) -> Result<()> {
        let done = answer.and_then(|answer| self.hand_over.done(&answer));
        done.map_err(|mut e| {
            if e.help.is_none() || e.kind == trainyard_core::ErrorKind::Invalid {
                e = e.help(format!(
                    "the server must see {seen} and be started so that it loads weights: vLLM with \
                     VLLM_SERVER_DEV_MODE=1, and for adapters --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"
                ));
            }
            e.at("new weights for the server")
        })
    }
    /// Removes the folders of other versions, which the server has read.
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
fn fresh(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(io_error(folder, &e)),
        _ => {}
    }
    std::fs::create_dir_all(folder).map_err(|e| io_error(folder, &e))
}
