//! Computes a lower bound of the memory of training from a model's shape and the options.
//!
//! The bound counts the memory that a step over a full micro-batch requires; `docs/adapters.md` has the formula. The
//! true peak is larger by the memory of the program, its libraries, the data and the allocator's reserves.

use crate::adapter::{Adapter, AdapterOptions, linear_layers};
use crate::config::ModelConfig;
use crate::decoder::pass_bytes;

/// Facts of a training stage.
#[derive(Debug, Clone, Copy)]
pub struct TrainingMemory<'a> {
    /// Trained adapter; `None` = the whole model is trained.
    pub adapter: Option<&'a AdapterOptions>,
    /// Tokens computed together.
    pub tokens: usize,
    /// Whether the stage also samples with the model: the sampler has a separate copy of the weights in the layout of
    /// its kernels. Those below an adapter take two bytes each if they are all bfloat16.
    pub samples: bool,
}

impl TrainingMemory<'_> {
    /// Returns the minimum bytes of training a model of this shape.
    pub fn lower_bound(&self, config: &ModelConfig) -> u64 {
        let base = config.parameter_count() as u64;
        let added = self.adapter.map_or(0, |options| adapter_parameters(config, options));
        let learned = if self.adapter.is_some() { added } else { base };
        // Weights; gradients and two moments of the trained parameters.
        let numbers = base + added + 3 * learned;
        let sampler = match self.adapter {
            _ if !self.samples => 0,
            Some(_) => 2 * base,
            None => 4 * base,
        };
        // Tied embeddings get a gradient as embeddings and as the head, and the two are added.
        let both = self.adapter.is_none() && config.tie_word_embeddings && config.num_labels.is_none();
        let twice = if both { 2 * config.vocab_size * config.hidden_size } else { 0 };
        4 * (numbers + twice as u64) + sampler + pass_bytes(config, self.tokens)
    }
}

/// Returns the numbers of an adapter; 0 if its targets are invalid, which another check reports.
fn adapter_parameters(config: &ModelConfig, options: &AdapterOptions) -> u64 {
    let targets = Adapter::targets(config, options).unwrap_or_default();
    let all = linear_layers(config).into_iter().filter(|layer| targets.contains(&layer.name));
    all.map(|layer| (options.rank * (layer.rows + layer.columns)) as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_of_a_135m_model_matches_hand_computation() {
        let config = ModelConfig { max_position_embeddings: 8_192, ..ModelConfig::llama(49_152, 576, 1_536, 30, 9, 3) };
        let parameters = 49_152 * 576 + 576 + 30 * (2 * 576 + 2 * 576 * 576 + 2 * 192 * 576 + 3 * 576 * 1_536);
        assert_eq!(config.parameter_count(), parameters);
        let full = TrainingMemory { adapter: None, tokens: 8_192, samples: false };
        // Inputs of 31 layers and norms, one layer's activations, scratch.
        let row = 31 * 576 + (576 + 960 + 576 + 2 * 1_536) + (6 * 576 + 4 * 1_536 + 576 + 960);
        let pass = 4 * 8_192 * (row + 2 * 576) + 4 * (1 << 24);
        assert_eq!(full.lower_bound(&config), (16 * parameters + 8 * 49_152 * 576 + pass) as u64);
        let options = AdapterOptions::default();
        let layer = 16 * (4 * 576 + 2 * (576 + 192) + 3 * (576 + 1_536));
        let lora = TrainingMemory { adapter: Some(&options), ..full };
        assert_eq!(lora.lower_bound(&config), (4 * (parameters + 4 * 30 * layer) + pass) as u64);
        let sampled = TrainingMemory { samples: true, ..full };
        assert_eq!(sampled.lower_bound(&config) - full.lower_bound(&config), 4 * parameters as u64);
        let sampled = TrainingMemory { samples: true, ..lora };
        assert_eq!(sampled.lower_bound(&config) - lora.lower_bound(&config), 2 * parameters as u64);
    }
}
