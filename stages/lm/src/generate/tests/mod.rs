//! Compares the engine with the training model, and with itself in other batches.

mod agreement;
mod batch_invariance;
mod faults;
mod padded;
mod trees;

use super::{DrawKey, Generator, SequenceRequest, SequenceState};
use crate::config::ModelConfig;
use crate::decoder::{Decoder, Weights};
use crate::families::find;
use candle_core::Tensor;
use trainyard_core::Chance;
use trainyard_tables::SamplingParams;

const VOCABULARY: usize = 53;

/// Returns small models of all variants of the family: grouped heads, query and key norms, biases, an untied language
/// head.
fn variants() -> Vec<ModelConfig> {
    let mut grouped = ModelConfig::llama(VOCABULARY, 32, 40, 2, 4, 2);
    grouped.max_position_embeddings = 256;
    let mut qwen3 = grouped.clone().as_qwen3();
    qwen3.head_dim = 12;
    let mut qwen2 = grouped.clone();
    qwen2.family = find("qwen2").unwrap();
    qwen2.architecture.attention_bias = true;
    qwen2.tie_word_embeddings = false;
    let mut llama = grouped.clone();
    llama.num_key_value_heads = 4;
    (llama.architecture.attention_bias, llama.architecture.output_bias) = (true, true);
    vec![grouped, qwen3, qwen2, llama]
}

/// Returns weights far from their initial values, so that norms and biases affect the result.
fn weights(config: &ModelConfig) -> Weights {
    let decoder = Decoder::initialize(config, &Chance::new(3)).unwrap();
    let randomize = |(name, tensor): (String, Tensor)| {
        let mut draws = Chance::new(4).at(&name, &[]);
        let values: Vec<f32> = tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let values: Vec<f32> = values.into_iter().map(|v| v + 0.2 * draws.normal() as f32).collect();
        let tensor = Tensor::from_vec(values, tensor.dims(), &candle_core::Device::Cpu).unwrap();
        (name, tensor)
    };
    decoder.weights().unwrap().into_iter().map(randomize).collect()
}

fn generator(config: &ModelConfig, threads: usize) -> Generator {
    Generator::new(config, &weights(config), threads).unwrap()
}

fn sampling(temperature: f64) -> SamplingParams {
    SamplingParams { temperature, top_p: 1.0, top_k: 0 }
}

/// Returns a request with a different prompt for every number.
fn request(number: u64, length: usize, max_new_tokens: usize) -> SequenceRequest {
    let mut draws = Chance::new(5).at("prompt", &[number]);
    SequenceRequest {
        tokens: (0..length).map(|_| draws.below(VOCABULARY as u64) as u32).collect(),
        draw: DrawKey { chance: Chance::new(6), problem: number, sample: 0 },
        sampling: sampling(1.0),
        stop_tokens: vec![7],
        max_new_tokens,
    }
}

/// The sequence without the ids of parents, numbers as bits.
type Bits = (Vec<u32>, Vec<bool>, Vec<u16>, Vec<u32>, Vec<u32>);

fn bits(state: &SequenceState) -> Bits {
    let raw = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect();
    (state.token_ids.clone(), state.loss_mask.clone(), state.turn.clone(), raw(&state.logprobs), raw(&state.entropies))
}
