//! Compares the gradients of an adapter, with and without dropout, with finite differences.

use super::{Decoder, Dropout};
use crate::adapter::{Adapter, AdapterOptions};
use crate::batch::SequenceBatch;
use crate::config::ModelConfig;
use crate::families::find;
use candle_core::{Device, Tensor};
use trainyard_core::Chance;

fn random(name: &str, dims: &[usize], center: f64) -> Tensor {
    let mut draws = Chance::new(8).at(name, &[]);
    let values: Vec<f64> = (0..dims.iter().product()).map(|_| center + 0.4 * draws.normal()).collect();
    Tensor::from_vec(values, dims, &Device::Cpu).unwrap()
}

/// Returns a decoder in float64 whose adapter is trained.
fn decoder(config: &ModelConfig) -> Decoder {
    let of = |(name, shape): (String, Vec<usize>)| {
        let center = if name.ends_with("norm.weight") { 1.0 } else { 0.0 };
        let tensor = random(&name, &shape, center);
        (name, tensor)
    };
    let options = AdapterOptions { rank: 3, alpha: 4.0, ..AdapterOptions::default() };
    let mut adapter = Adapter::new(config, &options, &Chance::new(1)).unwrap();
    for (name, tensor) in &mut adapter.tensors {
        *tensor = random(name, tensor.dims(), 0.0);
    }
    let weights = config.parameters().into_iter().map(of).collect();
    Decoder::new(config, weights, Some(&adapter), |name| name.contains(".lora_")).unwrap()
}

fn loss(decoder: &Decoder, batch: &SequenceBatch, dropout: Option<Dropout>) -> Tensor {
    let hidden = decoder.hidden_with(batch, dropout).unwrap();
    let (mut rows, mut targets) = (Vec::new(), Vec::new());
    for (i, sequence) in batch.sequences().iter().enumerate() {
        rows.extend((1..sequence.len()).map(|t| batch.row(i, t - 1)));
        targets.extend(&sequence[1..]);
    }
    let (logprobs, entropies) = decoder.logprobs(&hidden, &rows, &targets, 0.9).unwrap();
    (logprobs.mean_all().unwrap() + (entropies.mean_all().unwrap() * 0.3).unwrap()).unwrap()
}

#[test]
fn gradients_of_an_adapter_agree_with_finite_differences() {
    const STEP: f64 = 1e-5;
    let mut qwen2 = ModelConfig::llama(11, 12, 10, 2, 6, 2);
    (qwen2.family, qwen2.architecture.attention_bias, qwen2.tie_word_embeddings) =
        (find("qwen2").unwrap(), true, false);
    let mut qwen3 = ModelConfig::llama(11, 8, 14, 2, 4, 2).as_qwen3();
    qwen3.head_dim = 6;
    let mut norms_after = ModelConfig::llama(11, 8, 14, 2, 4, 2);
    norms_after.architecture.residual_scale = 0.4;
    (norms_after.architecture.norms.attention_out, norms_after.architecture.norms.mlp_out) =
        (Some("post_attention_norm"), Some("post_mlp_norm"));
    let sequence = |(i, n): (usize, usize)| (0..n).map(|t| ((i * 7 + t * t + 3 * t) % 11) as u32).collect();
    let batch = SequenceBatch::new([4, 9, 2].into_iter().enumerate().map(sequence).collect()).unwrap();
    // Queries, keys and values share an A, and so do gate and up.
    let joined = ModelConfig { family: find("phi3").unwrap(), ..ModelConfig::llama(11, 8, 14, 2, 4, 2) };
    for (config, parameters) in [(qwen2, 28), (qwen3, 28), (norms_after, 28), (joined, 16)] {
        for dropout in [None, Some(Dropout { share: 0.3, chance: Chance::new(4) })] {
            let decoder = decoder(&config);
            assert_eq!(decoder.parameters().len(), parameters);
            let gradients = loss(&decoder, &batch, dropout).backward().unwrap();
            for (name, var) in decoder.parameters() {
                let gradient = gradients.get(var.as_tensor()).expect(name).flatten_all().unwrap();
                let gradient = gradient.to_vec1::<f64>().unwrap();
                assert!(gradient.iter().any(|g| *g != 0.0), "{name}");
                let start = var.as_detached_tensor().copy().unwrap();
                let values = start.flatten_all().unwrap().to_vec1::<f64>().unwrap();
                for place in [0, values.len() / 3, values.len() / 2, values.len() - 1] {
                    let at = |shift: f64| {
                        let mut moved = values.clone();
                        moved[place] += shift;
                        var.set(&Tensor::from_vec(moved, var.shape(), &Device::Cpu).unwrap()).unwrap();
                        loss(&decoder, &batch, dropout).to_scalar::<f64>().unwrap()
                    };
                    let slope = (at(STEP) - at(-STEP)) / (2.0 * STEP);
                    let off = (slope - gradient[place]).abs();
                    assert!(off < 1e-7 + 1e-5 * slope.abs(), "{name}[{place}]: {slope} is not {}", gradient[place]);
                }
                var.set(&start).unwrap();
            }
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit_of_an_adapters_gradient() {
    let config = ModelConfig::llama(11, 16, 24, 2, 4, 2);
    let sequences = (0..9).map(|i| (0..40 + 7 * i).map(|t| (t * t + i) % 11).collect()).collect();
    let batch = SequenceBatch::new(sequences).unwrap();
    let dropout = Some(Dropout { share: 0.1, chance: Chance::new(4) });
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let decoder = decoder(&config);
            let gradients = loss(&decoder, &batch, dropout).backward().unwrap();
            let of = |v: &candle_core::Var| gradients.get(v.as_tensor()).unwrap().flatten_all()?.to_vec1::<f64>();
            decoder.parameters().values().flat_map(|v| of(v).unwrap()).map(f64::to_bits).collect::<Vec<_>>()
        })
    };
    assert_eq!(run(1), run(2));
}
