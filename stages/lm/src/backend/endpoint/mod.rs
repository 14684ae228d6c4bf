//! Samples from a model on a server: vLLM, SGLang or llama.cpp.
//!
//! The server samples whole turns. The client keeps the sequences and builds every request from their token ids
//! (`docs/design/0026-endpoint.md`). Responses are verified before use: the server may have another model, another
//! tokenizer or another definition of log-probabilities, or may be a server of another kind.

mod decode;
mod dialect;
mod identity;
mod options;
mod weight_lock;
mod weight_publisher;

pub use dialect::InferenceServerKind;
pub use options::{Endpoint, WeightTransferOptions};

use super::{
    Backend, BackendFeatures, DecodeSampler, ForcedScoring, Gpus, Learner, LearnerOptions, Sampler, SamplerOptions,
};
use crate::config::ModelConfig;
use crate::folder::ModelFolder;
use decode::EndpointDecode;
use dialect::LogprobsMode;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_api::family::PartOptions;
use trainyard_core::{Error, Result, Secrets};
use trainyard_http::{BaseUrl, HttpClient};
use trainyard_tables::SamplingParams;
use weight_lock::WeightLock;
use weight_publisher::WeightPublisher;

/// The backend `endpoint`.
pub struct EndpointBackend {
    options: Endpoint,
    secrets: Secrets,
    weight_lock: Arc<WeightLock>,
}

impl EndpointBackend {
    /// Creates the backend without sending a request to the server.
    pub fn new(options: Endpoint, secrets: &Secrets) -> Self {
        Self { options, secrets: secrets.clone(), weight_lock: Arc::default() }
    }
    fn open(&self, model: &ModelFolder) -> Result<Box<dyn Sampler>> {
        let options = &self.options;
        if model.config.num_labels.is_some() {
            return Err(
                Error::invalid("a server does not compute a scoring head").help("use the backend `cpu` or `candle`")
            );
        }
        let key = options.api_key.as_ref().map(|name| self.secrets.get(name)).transpose()?.cloned();
        let client = HttpClient::open(BaseUrl::read(&options.url)?, key, options.limits())?;
        let dialect = options.server.dialect();
        let mut name = identity::find_served_model(&client, options)?;
        let positions = identity::context(&client, dialect)?;
        identity::expect_tokenizer(&client, dialect, &name, model)?;
        let transfer = options.weights.as_ref().zip(dialect.weight_updates());
        let publisher = transfer.map(|(weights, update_api)| WeightPublisher::new(model, weights, update_api));
        if model.adapter.is_some() && publisher.is_none() && options.model.is_none() {
            return Err(Error::invalid("the model has an adapter, but no option names it on the server").help(
                "set `model` to the adapter's name on the server, set `weights` to load it, or serve the output of \
                 `model/merge`",
            ));
        }
        if let Some(publisher) = &publisher {
            self.weight_lock.update(|before| publisher.publish_initial(&client, model, before))?;
        }
        let permit = self.weight_lock.acquire();
        name.adapter = permit.loaded.adapter.clone().or(name.adapter);
        let mode = match (identity::probe(&client, dialect, &name, model)?, options.server) {
            // vLLM truncates wherever it applies the temperature.
            (LogprobsMode::Tempered, InferenceServerKind::Vllm) => LogprobsMode::Sampled,
            (mode, _) => mode,
        };
        drop(permit);
        let config = ModelConfig {
            max_position_embeddings: model.config.max_position_embeddings.min(positions.unwrap_or(usize::MAX)),
            ..model.config.clone()
        };
        let weight_lock = self.weight_lock.clone();
        let decode = EndpointDecode {
            client,
            dialect,
            name,
            logprobs_mode: mode,
            weight_lock,
            publisher,
            in_flight: BTreeMap::new(),
        };
        Ok(Box::new(DecodeSampler::without_entropies(decode, &config)))
    }
}

impl Backend for EndpointBackend {
    fn kind(&self) -> &'static str {
        Endpoint::KIND
    }
    fn features(&self) -> BackendFeatures {
        BackendFeatures {
            trains: false,
            weights: self.options.weights.is_some(),
            entropies: false,
            forced_scoring: if self.options.server == InferenceServerKind::LlamaCpp {
                ForcedScoring::Never
            } else {
                ForcedScoring::Plain
            },
            scores: false,
            reproducible_draws: false,
        }
    }
    fn refuses(&self, sampling: &SamplingParams) -> Option<(String, String)> {
        decode::unsupported_sampling(&self.options, sampling)
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
