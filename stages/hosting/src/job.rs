//! A request that is ready to be sampled.

use super::turn::Turn;
use trainyard_core::Chance;
use trainyard_lm::generate::SequenceId;
use trainyard_serving::{Asked, Choice, Reply};
use trainyard_tables::Sampling;

/// A request that is ready to be sampled.
pub struct Job {
    pub asked: Asked,
    pub reply: Reply,
    /// The prompt.
    pub tokens: Vec<u32>,
    pub sampling: Sampling,
    /// Source of its draws: answers with equal sources have equal tokens.
    pub draws: Chance,
    /// Tokens that end a turn.
    pub stop_tokens: Vec<u32>,
    /// Most tokens of a turn.
    pub most: usize,
    /// Readers of the answers, as many as were asked for.
    pub turns: Vec<Turn>,
}

/// A job whose sequences are being sampled.
pub struct Active {
    pub job: Job,
    pub prompt_logprobs: Option<Vec<f32>>,
    /// The sequences in the order of the answers; none = its turn is over.
    pub sequences: Vec<Option<SequenceId>>,
    /// Turns that are over.
    pub ended: Vec<Option<Choice>>,
}
