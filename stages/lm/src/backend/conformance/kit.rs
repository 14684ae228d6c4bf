//! Provides fixtures that the checks share: a small random model, sequences, requests.

use crate::backend::cpu::Cpu;
use crate::backend::{Backend, Learner, LearnerOptions, Outputs, Sampler, SamplerOptions, TokenPosition};
use crate::config::ModelConfig;
use crate::decoder::Decoder;
use crate::folder::{GenerationConfig, ModelFolder};
use crate::generate::{DrawKey, SequenceFinish, SequenceId, SequenceRequest};
use crate::optimizer::AdamWConfig;
use crate::template::{BuiltinTemplate, ChatEncoder};
use crate::tokenizer::character_tokenizer;
use std::path::PathBuf;
use trainyard_core::Chance;
use trainyard_tables::SamplingParams;

pub(super) const POSITIONS: usize = 64;
pub(super) const FULL: SamplingParams = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };

/// Returns the model of the suite: random weights, one character per token.
pub fn model() -> ModelFolder {
    let template = BuiltinTemplate::Compact;
    let tokenizer = character_tokenizer(["0123456789"], template.special_tokens()).expect("a tokenizer of characters");
    let config = ModelConfig {
        max_position_embeddings: POSITIONS,
        initializer_range: 0.2,
        ..ModelConfig::llama(tokenizer.vocabulary_size(), 16, 32, 2, 2, 2)
    };
    let weights = Decoder::initialize(&config, &Chance::new(7)).and_then(|d| d.weights()).expect("random weights");
    let chat = ChatEncoder::new(tokenizer, template.template().expect("a built-in template")).expect("a chat format");
    ModelFolder::new(config, weights, chat, GenerationConfig::default()).expect("parts of one model")
}

pub(super) const SEQUENCES: [&[u32]; 3] = [&[10, 11, 12, 13, 14], &[20, 21, 22], &[30, 31, 32, 33]];

pub(super) fn token_positions() -> Vec<TokenPosition> {
    TokenPosition::from_masks(&SEQUENCES.map(|s| vec![true; s.len()]))
}
pub(super) fn learner(backend: &dyn Backend, options: &LearnerOptions) -> Box<dyn Learner> {
    backend.learner(&model(), options).expect("a learner of the model")
}
/// Returns the backend that trains models for `backend` to sample: `backend` itself, or the reference if it cannot
/// train.
pub(super) fn trainer_of(backend: &dyn Backend) -> &dyn Backend {
    if backend.features().trains { backend } else { &Cpu }
}
pub(super) fn plain() -> LearnerOptions {
    let optimizer = AdamWConfig { weight_decay: 0.0, max_norm: None, ..AdamWConfig::default() };
    LearnerOptions { optimizer, ..LearnerOptions::default() }
}
pub(super) fn evaluate(learner: &dyn Learner) -> Outputs {
    learner.evaluate(&SEQUENCES, &token_positions(), 1.0).expect("outputs")
}
pub(super) fn sampler(backend: &dyn Backend) -> Box<dyn Sampler> {
    backend.sampler(&model(), &SamplerOptions { threads: 2 }).expect("a sampler of the model")
}
/// Returns the draws of the suite's sequences, for test servers that receive only their seeds.
pub fn draws() -> Vec<DrawKey> {
    let chance = Chance::new(3);
    let of = |problem: u64| (0..80).map(move |sample| DrawKey { chance, problem, sample });
    [10, 40].into_iter().flat_map(of).collect()
}
pub(super) fn request(first: u32, sample: u64, max_new_tokens: usize) -> SequenceRequest {
    SequenceRequest {
        tokens: vec![first, first + 1, first + 2],
        draw: DrawKey { chance: Chance::new(3), problem: u64::from(first), sample },
        sampling: FULL,
        stop_tokens: Vec::new(),
        max_new_tokens,
    }
}
pub(super) fn finish(sampler: &mut dyn Sampler) -> Vec<(SequenceId, SequenceFinish)> {
    let mut ended = Vec::new();
    while sampler.running() > 0 {
        ended.extend(sampler.step().expect("a step"));
    }
    ended
}

/// A folder that is removed at the end of the check.
pub(super) struct ConformanceFolder(pub(super) PathBuf);

impl ConformanceFolder {
    pub(super) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("trainyard-backend-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        Self(folder)
    }
}

impl Drop for ConformanceFolder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
