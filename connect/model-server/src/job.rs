//! A request that is ready to be sampled.

use super::turn::Turn;
use trainyard_core::Chance;
use trainyard_lm::generate::SequenceId;
use trainyard_model_api::{Asked, Choice, Reply};
use trainyard_tables::Sampling;

/// A request that is ready to be sampled.
pub struct Job {
    pub asked: Asked,
    pub reply: Reply,
    pub tokens: Vec<u32>,
    pub sampling: Sampling,
    /// Source of its draws: answers with equal sources have equal tokens.
    pub draws: Chance,
    pub stop_tokens: Vec<u32>,
    /// Maximum tokens of a turn.
    pub most: usize,
    /// Readers of the answers, as many as requested.
    pub turns: Vec<Turn>,
}

/// A job whose sequences are being sampled.
pub struct Active {
    pub job: Job,
    pub prompt_logprobs: Option<Vec<f32>>,
    /// Sequences in the order of the answers; `None` = its turn is over.
    pub sequences: Vec<Option<SequenceId>>,
    /// Finished turns.
    pub ended: Vec<Option<Choice>>,
}
