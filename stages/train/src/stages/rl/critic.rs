//! The value model of actor-critic methods: a copy of the policy's decoder with one output per token, trained beside the policy.
//!
//! Why a model of its own: shared weights let the value loss pull on the policy, and how much is one more constant to tune. Its value
//! at a token is read from the hidden state before that token, so it cannot know what was sampled. Refuses: nothing of its own.

use crate::optimize::trainer::tensor;
use crate::optimize::{OptimizerOptions, Place, Trainer, micro_batches};
use candle_core::{Device, Tensor};
use std::path::Path;
use trainyard_core::Result;
use trainyard_learn::Grid;
use trainyard_lm::{Decoder, ModelFolder, TokenBatch};

const PREFIX: &str = "critic-";

/// The value model with its optimizer.
pub struct Critic {
    trainer: Trainer,
    micro_batch_tokens: usize,
}

impl Critic {
    /// All values are 0 at first. `total` = optimizer steps of the whole stage.
    pub fn new(model: &ModelFolder, options: &OptimizerOptions, total: u64, micro_batch_tokens: usize) -> Result<Self> {
        let decoder = Decoder::from_weights(&model.config, model.weights.clone())?.into_classifier(1)?;
        Ok(Self { trainer: Trainer::of(decoder, options, total, |_| true), micro_batch_tokens })
    }

    /// Values at places of some sequences, still connected to the weights.
    pub fn forward(&self, sequences: Vec<Vec<u32>>, places: &[Place]) -> Result<Tensor> {
        self.scores(sequences, places, true)
    }
    fn scores(&self, sequences: Vec<Vec<u32>>, places: &[Place], gradient: bool) -> Result<Tensor> {
        let batch = TokenBatch::new(sequences)?;
        let rows: Vec<u32> = places.iter().map(|p| batch.row(p.sequence, p.token - 1)).collect();
        let decoder = &self.trainer.decoder;
        let hidden = if gradient { decoder.hidden(&batch)? } else { decoder.hidden_no_grad(&batch)? };
        decoder.scores(&hidden, &rows)?.flatten_all().map_err(tensor)
    }
    /// Values `[sequence][token]` where the masks are true, 0 elsewhere; no gradient.
    pub fn values(&self, sequences: &[&[u32]], masks: &[&[bool]]) -> Result<Grid> {
        let mut grid: Grid = sequences.iter().map(|s| vec![0.0; s.len()]).collect();
        let used: Vec<usize> = (0..sequences.len()).filter(|&i| masks[i].iter().skip(1).any(|m| *m)).collect();
        let lengths: Vec<usize> = used.iter().map(|&i| sequences[i].len()).collect();
        for part in micro_batches(&lengths, self.micro_batch_tokens) {
            let ids: Vec<usize> = part.iter().map(|&k| used[k]).collect();
            let places = Place::of_mask(&ids.iter().map(|&i| masks[i]).collect::<Vec<_>>());
            let values =
                numbers(&self.scores(ids.iter().map(|&i| sequences[i].to_vec()).collect(), &places, false)?)?;
            for (place, value) in places.iter().zip(values) {
                grid[ids[place.sequence]][place.token] = value;
            }
        }
        Ok(grid)
    }

    /// Adds the gradient of Σ slope·value.
    pub fn backward(&mut self, values: &Tensor, slopes: &[f64]) -> Result<()> {
        let slopes: Vec<f32> = slopes.iter().map(|s| *s as f32).collect();
        let slopes = Tensor::from_slice(&slopes, slopes.len(), &Device::Cpu).map_err(tensor)?;
        let surrogate = values.mul(&slopes).and_then(|t| t.sum_all()).map_err(tensor)?;
        self.trainer.accumulate(&surrogate)
    }
    /// One optimizer step with what was accumulated.
    pub fn step(&mut self) -> Result<()> {
        self.trainer.step().map(|_| ())
    }

    pub fn save(&self, folder: &Path) -> Result<()> {
        self.trainer.save_as(folder, PREFIX)
    }
    pub fn load(&mut self, folder: &Path) -> Result<()> {
        self.trainer.load_as(folder, PREFIX)
    }
}

/// Values as plain numbers, without their graph.
pub fn numbers(values: &Tensor) -> Result<Vec<f64>> {
    Ok(values.to_vec1::<f32>().map_err(tensor)?.into_iter().map(f64::from).collect())
}
