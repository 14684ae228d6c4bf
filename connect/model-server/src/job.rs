//! Defines requests that are ready to be sampled, and those that are being sampled.

use super::choice_decoder::ChoiceDecoder;
use trainyard_core::Chance;
use trainyard_lm::generate::{SequenceId, TokenConstraint};
use trainyard_model_api::{ModelRequest, ResponseChoice, ResponseSender};
use trainyard_tables::SamplingParams;

/// A request that is ready to be sampled.
pub struct SamplingJob {
    pub request: ModelRequest,
    pub reply: ResponseSender,
    pub tokens: Vec<u32>,
    pub sampling: SamplingParams,
    /// Random source of the job: choices with equal sources have equal tokens.
    pub draws: Chance,
    pub stop_tokens: Vec<u32>,
    /// Rule of every choice, if the request gives the form of its response.
    pub constraint: Option<Box<dyn TokenConstraint>>,
    /// Maximum tokens of a turn.
    pub max_tokens: usize,
    /// Decoders of the choices, as many as requested.
    pub decoders: Vec<ChoiceDecoder>,
}

/// A job whose sequences are being sampled.
pub struct ActiveJob {
    pub job: SamplingJob,
    pub prompt_logprobs: Option<Vec<f32>>,
    /// Sequences in the order of the choices; `None` once the turn has ended.
    pub sequences: Vec<Option<SequenceId>>,
    /// Finished turns.
    pub finished: Vec<Option<ResponseChoice>>,
}
