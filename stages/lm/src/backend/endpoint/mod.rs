//! A sampler for a model on a server: vLLM, SGLang and llama.cpp.
//!
//! The server samples whole turns; this side keeps the sequences, and builds every request from their token ids
//! (`docs/design/0026`). Responses are verified before use: the server may have another model, another tokenizer or
//! another definition of log-probabilities, or not be such a server at all.

mod decode;
mod dialect;
mod gate;
mod hand_over;
mod identity;
mod options;

pub use dialect::Server;
pub use options::{Endpoint, Weights};

use super::{Backend, Forced, Gpus, Learner, LearnerOptions, Offers, Rostered, Sampler, SamplerOptions};
use crate::config::ModelConfig;
use crate::folder::ModelFolder;
use decode::Remote;
use dialect::Meaning;
use gate::Gate;
use hand_over::Courier;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_api::family::PartOptions;
use trainyard_core::{Error, Result, Secrets};
use trainyard_http::{Address, Desk};
use trainyard_tables::Sampling;

/// The backend `endpoint`.
pub struct EndpointBackend {
    options: Endpoint,
    secrets: Secrets,
    gate: Arc<Gate>,
}

impl EndpointBackend {
    /// Creates the backend without a request to the server.
    pub fn new(options: Endpoint, secrets: &Secrets) -> Self {
        Self { options, secrets: secrets.clone(), gate: Arc::default() }
    }
    fn open(&self, model: &ModelFolder) -> Result<Box<dyn Sampler>> {
        let options = &self.options;
        if model.config.num_labels.is_some() {
            return Err(Error::invalid("a server computes no scoring head").help("use the backend `cpu` or `candle`"));
        }
        let key = options.api_key.as_ref().map(|name| self.secrets.get(name)).transpose()?.cloned();
        let desk = Desk::open(Address::read(&options.url)?, key, options.limits())?;
        let dialect = options.server.dialect();
        let mut name = identity::served(&desk, options)?;
        let positions = identity::context(&desk, dialect)?;
        identity::expect_tokenizer(&desk, dialect, &name, model)?;
        let hand_over = options.weights.as_ref().zip(dialect.hand_over());
        let courier = hand_over.map(|(weights, way)| Courier::new(model, weights, way));
        if model.adapter.is_some() && courier.is_none() && options.model.is_none() {
            return Err(Error::invalid("the model has an adapter, and nothing says that the server has it").help(
                "name the adapter that the server serves in `model`, let it be loaded by `weights`, or serve what \
                 `model/merge` makes",
            ));
        }
        if let Some(courier) = &courier {
            self.gate.change(|before| courier.first(&desk, model, before))?;
        }
        let lease = self.gate.wait_to_enter();
        name.adapter = lease.loaded.adapter.clone().or(name.adapter);
        let meaning = match (identity::probe(&desk, dialect, &name, model)?, options.server) {
            // vLLM truncates wherever it applies the temperature.
            (Meaning::Tempered, Server::Vllm) => Meaning::Sampled,
            (meaning, _) => meaning,
        };
        drop(lease);
        let config = ModelConfig {
            max_position_embeddings: model.config.max_position_embeddings.min(positions.unwrap_or(usize::MAX)),
            ..model.config.clone()
        };
        let gate = self.gate.clone();
        let remote = Remote { desk, dialect, name, meaning, gate, courier, flights: BTreeMap::new() };
        Ok(Box::new(Rostered::without_entropies(remote, &config)))
    }
}

impl Backend for EndpointBackend {
    fn kind(&self) -> &'static str {
        Endpoint::KIND
    }
    fn offers(&self) -> Offers {
        Offers {
            trains: false,
            weights: self.options.weights.is_some(),
            entropies: false,
            forced: if self.options.server == Server::LlamaCpp { Forced::Never } else { Forced::Plain },
            scores: false,
            draws: false,
        }
    }
    fn refuses(&self, sampling: &Sampling) -> Option<(String, String)> {
        decode::refused(&self.options, sampling)
    }
    fn gpus(&self) -> Gpus {
        Gpus::Unused
    }
    fn is_batch_invariant(&self) -> bool {
        false
    }
    fn learner(&self, _model: &ModelFolder, _options: &LearnerOptions) -> Result<Box<dyn Learner>> {
        Err(Error::invalid("the backend `endpoint` samples and does not train")
            .help("train on `cpu` or `candle`, and sample by `rollout: {backend: {kind: endpoint, …}}` in `rl`"))
    }
    fn sampler(&self, model: &ModelFolder, _options: &SamplerOptions) -> Result<Box<dyn Sampler>> {
        self.open(model).map_err(|e| e.at(format!("endpoint {}", self.options.url)))
    }
}
