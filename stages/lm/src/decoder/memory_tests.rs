//! Tests that the measures which reduce a pass's memory change no bit.

use super::Decoder;
use super::state::PassLimits;
use crate::adapter::{Adapter, AdapterOptions};
use crate::batch::SequenceBatch;
use crate::config::ModelConfig;
use crate::families::find;
use crate::optimizer::Gradients;
use trainyard_core::Chance;

fn shapes() -> [ModelConfig; 3] {
    let mut qwen2 = ModelConfig::llama(31, 48, 80, 2, 6, 2);
    (qwen2.family, qwen2.architecture.attention_bias, qwen2.tie_word_embeddings) =
        (find("qwen2").unwrap(), true, false);
    let mut qwen3 = ModelConfig::llama(31, 32, 56, 3, 4, 2).as_qwen3();
    qwen3.head_dim = 24;
    // Wider than one product sums at once.
    [qwen2, qwen3, ModelConfig::llama(31, 640, 1100, 2, 10, 5)]
}

fn bits(decoder: &Decoder, batch: &SequenceBatch) -> Vec<u32> {
    let rows: Vec<u32> = (0..batch.rows() as u32 - 1).collect();
    let targets: Vec<u32> = rows.iter().map(|row| row * 7 % 31).collect();
    let hidden = decoder.hidden(batch).unwrap();
    let (logprobs, entropies) = decoder.logprobs(&hidden, &rows, &targets, 1.0).unwrap();
    let loss = (logprobs.sum_all().unwrap() + entropies.sum_all().unwrap()).unwrap();
    let gradients = Gradients::collect(decoder.parameters(), loss.backward().unwrap()).unwrap();
    let numbers = decoder.parameters().keys().flat_map(|name| gradients.get(name).unwrap().to_vec());
    logprobs.to_vec1::<f32>().unwrap().into_iter().chain(numbers).map(f32::to_bits).collect()
}

#[test]
fn recomputation_and_untransposed_weights_change_no_bit() {
    let sequence = |i: u32, n: u32| (0..n).map(|t| (t * t + 3 * t + i) % 31).collect::<Vec<u32>>();
    let batch = SequenceBatch::new(vec![sequence(0, 70), sequence(1, 5), sequence(2, 130), sequence(3, 64)]).unwrap();
    for config in shapes() {
        let weights = Decoder::initialize(&config, &Chance::new(3)).unwrap().weights().unwrap();
        let options = AdapterOptions { rank: 4, ..AdapterOptions::default() };
        let adapter = Adapter::new(&config, &options, &Chance::new(1)).unwrap();
        for adapter in [None, Some(&adapter)] {
            let run = |limits: PassLimits| {
                let learns = |name: &str| adapter.is_none() || name.contains(".lora_");
                let mut decoder = Decoder::new(&config, weights.clone(), adapter, learns).unwrap();
                decoder.limits = limits;
                bits(&decoder, &batch)
            };
            let all = run(PassLimits::default());
            assert_eq!(all, run(PassLimits { activations: 0, ..PassLimits::default() }), "recomputed activations");
            assert_eq!(all, run(PassLimits { transposed: 0, ..PassLimits::default() }), "weights as they are");
            assert_eq!(all, run(PassLimits { transposed: 0, activations: 0 }), "both");
        }
    }
}

#[test]
fn large_batches_and_models_recompute_activations() {
    use super::state::ActivationPolicy;
    let small = ModelConfig::llama(493, 96, 256, 3, 4, 4);
    let large = ModelConfig::llama(49_152, 576, 1536, 30, 9, 3);
    let keep = |config: &ModelConfig, rows| ActivationPolicy::for_training(config, rows, 4, PassLimits::default());
    assert_eq!(
        (keep(&small, 8_192), keep(&large, 512), keep(&large, 8_192)),
        (ActivationPolicy::All, ActivationPolicy::All, ActivationPolicy::Inputs)
    );
}
