//! The value model of actor-critic methods: a copy of the policy's decoder with one output per token, trained beside
//! the policy.
//!
//! It is a model of its own, since shared weights let the value loss pull on the policy, and how much is one more
//! constant to tune. Its value at a token is read from the hidden state before that token, so it cannot know what was
//! sampled.

use crate::contexts::by_context;
use crate::model::Policy;
use crate::optimize::{Learned, OptimizerOptions, Trainer, micro_batches};
use std::path::Path;
use trainyard_core::Result;
use trainyard_learn::Grid;
use trainyard_lm::backend::{Head, Place, Slopes};
use trainyard_tables::Trajectory;

const PREFIX: &str = "critic-";

/// The value model with its optimizer.
pub struct Critic {
    trainer: Trainer,
    micro_batch_tokens: usize,
}

impl Critic {
    /// All values are 0 at first. `total` = optimizer steps of the whole stage; `learned` is what the policy trains,
    /// so that beside an adapter the value model is an adapter, too.
    pub fn new(
        policy: &Policy,
        options: &OptimizerOptions,
        total: u64,
        micro_batch_tokens: usize,
        learned: Learned,
    ) -> Result<Self> {
        let head = Head::Scores(1);
        let trainer = Trainer::with_head(&*policy.backend, &policy.folder, options, total, head, learned)?;
        Ok(Self { trainer, micro_batch_tokens })
    }

    /// Values at places of some sequences; what the next [`Critic::backward`] needs is kept.
    pub fn forward(&mut self, sequences: &[&[u32]], places: &[Place]) -> Result<Vec<f64>> {
        Ok(self.trainer.forward(sequences, places, 1.0)?.values)
    }
    /// Values `[row][token]` where the masks are true, 0 elsewhere; no gradient.
    pub fn values(&self, rows: &[&Trajectory], masks: &[&[bool]]) -> Result<Grid> {
        let mut grid: Grid = rows.iter().map(|row| vec![0.0; row.token_ids.len()]).collect();
        let used: Vec<usize> = (0..rows.len()).filter(|&i| masks[i].iter().skip(1).any(|m| *m)).collect();
        let lengths: Vec<usize> = used.iter().map(|&i| rows[i].token_ids.len()).collect();
        for part in micro_batches(&lengths, self.micro_batch_tokens) {
            let ids: Vec<usize> = part.iter().map(|&k| used[k]).collect();
            let places = Place::of_masks(&ids.iter().map(|&i| masks[i]).collect::<Vec<_>>());
            let (tokens, within) = by_context(ids.iter().map(|&i| rows[i]), &places);
            let values = self.trainer.evaluate(&tokens, &within, 1.0)?.values;
            for (place, value) in places.iter().zip(values) {
                grid[ids[place.sequence]][place.token] = value;
            }
        }
        Ok(grid)
    }

    /// Adds the gradient of Σ slope·value of the last forward.
    pub fn backward(&mut self, slopes: &[f64]) -> Result<()> {
        self.trainer.backward(&Slopes { values: slopes, ..Slopes::default() })
    }
    /// One optimizer step with what was added up.
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
