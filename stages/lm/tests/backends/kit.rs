//! Provides a backend that starts a server for every model, and helpers of the tests.

use serde_json::json;
use tempfile::TempDir;
use trainyard_core::{Chance, Error, Result, Secrets};
use trainyard_lm::backend::conformance;
use trainyard_lm::backend::endpoint::{Endpoint, EndpointBackend, InferenceServerKind, WeightTransferOptions};
use trainyard_lm::backend::{
    Backend, BackendFeatures, Gpus, Learner, LearnerOptions, Parameters, Sampler, SamplerOptions,
};
use trainyard_lm::folder::ModelFolder;
use trainyard_lm::generate::{DrawKey, SequenceFinish, SequenceId, SequenceLogprobs, SequenceRequest, SequenceState};
use trainyard_tables::SamplingParams;
use trainyard_testkit_lm::{MockModelServer, MockServerOptions};

/// Returns the options for a server, as a workflow file gives them.
pub fn options(server: InferenceServerKind, url: &str) -> Endpoint {
    let name = serde_json::to_value(server).unwrap();
    serde_json::from_value(json!({"url": url, "server": name, "timeout": "20s", "attempts": 2})).unwrap()
}

/// Opens a sampler with `options`.
pub fn open(options: Endpoint, model: &ModelFolder) -> Result<Box<dyn Sampler>> {
    EndpointBackend::new(options, &Secrets::default()).sampler(model, &SamplerOptions { threads: 1 })
}

/// Returns the error of opening a sampler with `options`. Panics if opening succeeds.
pub fn refusal(options: Endpoint, model: &ModelFolder) -> Error {
    open(options, model).map(|_| ()).expect_err("a refusal")
}

/// Runs steps until all turns have ended.
pub fn finish(sampler: &mut dyn Sampler) -> Result<()> {
    while sampler.running() > 0 {
        sampler.step()?;
    }
    Ok(())
}

/// Returns a request for a turn of at most `max_new_tokens` tokens after a prompt of the suite's model.
pub fn request(sampling: SamplingParams, max_new_tokens: usize) -> SequenceRequest {
    let draw = DrawKey { chance: Chance::new(3), problem: 10, sample: 0 };
    SequenceRequest { tokens: vec![10, 11, 12], draw, sampling, stop_tokens: Vec::new(), max_new_tokens }
}

/// Samples one turn.
pub fn turn(sampler: &mut dyn Sampler, request: SequenceRequest) -> Result<SequenceState> {
    let id = sampler.start(request)?;
    finish(sampler)?;
    Ok(sampler.remove(id))
}

pub const PLAIN: SamplingParams = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };
pub const GREEDY: SamplingParams = SamplingParams { temperature: 0.0, ..PLAIN };

/// The endpoint with a separate server per sampler.
pub struct MockServerBackend {
    server: InferenceServerKind,
    server_options: MockServerOptions,
}

impl MockServerBackend {
    pub fn new(server: InferenceServerKind, server_options: MockServerOptions) -> Self {
        Self { server, server_options }
    }
    fn options(&self, url: &str, folder: &TempDir) -> Endpoint {
        let weights = WeightTransferOptions { folder: folder.path().display().to_string(), seen_as: None };
        Endpoint {
            weights: (self.server != InferenceServerKind::LlamaCpp).then_some(weights),
            ..options(self.server, url)
        }
    }
    /// Returns the options, without weight transfer for the variants of the decoder that no `config.json` describes. An
    /// adapter needs no config.
    fn options_for(&self, model: &ModelFolder, url: &str, folder: &TempDir) -> Endpoint {
        let options = self.options(url, folder);
        let described = model.config == conformance::model().config || model.adapter.is_some();
        Endpoint { weights: options.weights.clone().filter(|_| described), ..options }
    }
}

impl Backend for MockServerBackend {
    fn kind(&self) -> &'static str {
        "endpoint"
    }
    fn features(&self) -> BackendFeatures {
        let folder = tempfile::tempdir().unwrap();
        let own = EndpointBackend::new(self.options("http://127.0.0.1:1", &folder), &Secrets::default()).features();
        // These servers know the draws of the seeds.
        BackendFeatures { reproducible_draws: true, ..own }
    }
    fn refuses(&self, sampling: &SamplingParams) -> Option<(String, String)> {
        EndpointBackend::new(options(self.server, "http://127.0.0.1:1"), &Secrets::default()).refuses(sampling)
    }
    fn gpus(&self) -> Gpus {
        Gpus::Unused
    }
    fn is_batch_invariant(&self) -> bool {
        false
    }
    fn learner(&self, _model: &ModelFolder, _options: &LearnerOptions) -> Result<Box<dyn Learner>> {
        Err(Error::bug("the endpoint does not train"))
    }
    fn sampler(&self, model: &ModelFolder, _options: &SamplerOptions) -> Result<Box<dyn Sampler>> {
        let folder = tempfile::tempdir().unwrap();
        let server = MockModelServer::start(self.server, model, self.server_options.clone())?;
        let inner = open(self.options_for(model, &server.url(), &folder), model)?;
        Ok(Box::new(ServerSampler { inner, _server: server, _folder: folder }))
    }
}

/// A sampler that owns its server.
struct ServerSampler {
    inner: Box<dyn Sampler>,
    _server: MockModelServer,
    _folder: TempDir,
}

impl Sampler for ServerSampler {
    fn start(&mut self, request: SequenceRequest) -> Result<SequenceId> {
        self.inner.start(request)
    }
    fn fork(&mut self, id: SequenceId, at: usize, draw: DrawKey) -> Result<SequenceId> {
        self.inner.fork(id, at, draw)
    }
    fn append(&mut self, id: SequenceId, tokens: &[u32], max_new_tokens: usize) -> Result<()> {
        self.inner.append(id, tokens, max_new_tokens)
    }
    fn pause(&mut self, id: SequenceId) {
        self.inner.pause(id);
    }
    fn resume(&mut self, id: SequenceId, max_new_tokens: usize) -> Result<()> {
        self.inner.resume(id, max_new_tokens)
    }
    fn step(&mut self) -> Result<Vec<(SequenceId, SequenceFinish)>> {
        self.inner.step()
    }
    fn running(&self) -> usize {
        self.inner.running()
    }
    fn sequence(&self, id: SequenceId) -> &SequenceState {
        self.inner.sequence(id)
    }
    fn remove(&mut self, id: SequenceId) -> SequenceState {
        self.inner.remove(id)
    }
    fn positions(&self) -> usize {
        self.inner.positions()
    }
    fn cache_bytes(&self, tokens: usize) -> u64 {
        self.inner.cache_bytes(tokens)
    }
    fn set_weights(&mut self, weights: &Parameters, version: u32) -> Result<()> {
        self.inner.set_weights(weights, version)
    }
    fn version(&self) -> u32 {
        self.inner.version()
    }
    fn logprobs_of(&mut self, sequences: &[&[u32]], sampling: &SamplingParams) -> Result<Vec<SequenceLogprobs>> {
        self.inner.logprobs_of(sequences, sampling)
    }
    fn score_labels(&self) -> usize {
        self.inner.score_labels()
    }
    fn score(&mut self, sequences: &[&[u32]], positions: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        self.inner.score(sequences, positions)
    }
}
