//! Trains the value model of actor-critic methods: a copy of the policy's decoder with one output per token.
//!
//! The model is separate, because with shared weights the value loss would change the policy, with a strength that is
//! one more constant to tune. The value at a token is read from the hidden state before that token, so it does not
//! depend on the sampled token.

use crate::contexts::by_context;
use crate::model::PolicyModel;
use crate::optimize::{ModelTrainer, OptimizerOptions, TrainableParams, micro_batches};
use std::path::Path;
use trainyard_core::Result;
use trainyard_learn::TokenGrid;
use trainyard_lm::backend::{LearnerHead, OutputGradients, TokenPosition};
use trainyard_tables::Trajectory;

const PREFIX: &str = "critic-";

/// Value model with its optimizer.
pub struct Critic {
    trainer: ModelTrainer,
    micro_batch_tokens: usize,
}

impl Critic {
    /// Creates a value model with all values 0. `total` = optimizer steps of the whole stage; `learned` is the trained
    /// part of the policy, so that the value model is also an adapter if the policy trains one.
    pub fn new(
        policy: &PolicyModel,
        options: &OptimizerOptions,
        total: u64,
        micro_batch_tokens: usize,
        learned: TrainableParams,
    ) -> Result<Self> {
        let head = LearnerHead::Scores(1);
        let trainer = ModelTrainer::with_head(&*policy.backend, &policy.folder, options, total, head, learned)?;
        Ok(Self { trainer, micro_batch_tokens })
    }

    /// Computes values at positions of some sequences, and keeps the activations for the next [`Critic::backward`].
    pub fn forward(&mut self, sequences: &[&[u32]], places: &[TokenPosition]) -> Result<Vec<f64>> {
        Ok(self.trainer.forward(sequences, places, 1.0)?.values)
    }
    /// Computes values `[row][token]` where the masks are true, 0 elsewhere, without gradients.
    pub fn values(&self, rows: &[&Trajectory], masks: &[&[bool]]) -> Result<TokenGrid> {
        let mut grid: TokenGrid = rows.iter().map(|row| vec![0.0; row.token_ids.len()]).collect();
        let used: Vec<usize> = (0..rows.len()).filter(|&i| masks[i].iter().skip(1).any(|m| *m)).collect();
        let lengths: Vec<usize> = used.iter().map(|&i| rows[i].token_ids.len()).collect();
        for part in micro_batches(&lengths, self.micro_batch_tokens) {
            let ids: Vec<usize> = part.iter().map(|&k| used[k]).collect();
            let places = TokenPosition::from_masks(&ids.iter().map(|&i| masks[i]).collect::<Vec<_>>());
            let (tokens, within) = by_context(ids.iter().map(|&i| rows[i]), &places);
            let values = self.trainer.evaluate(&tokens, &within, 1.0)?.values;
            for (place, value) in places.iter().zip(values) {
                grid[ids[place.sequence]][place.token] = value;
            }
        }
        Ok(grid)
    }

    /// Adds the gradient of Σ slope·value over the values of the last forward pass.
    pub fn backward(&mut self, slopes: &[f64]) -> Result<()> {
        self.trainer.backward(&OutputGradients { values: slopes, ..OutputGradients::default() })
    }
    /// Takes one optimizer step with the accumulated gradients.
    pub fn step(&mut self) -> Result<()> {
        self.trainer.step().map(|_| ())
    }

    pub fn save(&self, folder: &Path) -> Result<()> {
        self.trainer.save(folder, PREFIX)
    }
    pub fn load(&mut self, folder: &Path) -> Result<()> {
        self.trainer.load(folder, PREFIX)
    }
}
