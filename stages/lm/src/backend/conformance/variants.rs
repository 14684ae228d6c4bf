//! Builds the suite's model in every variant of the architecture, and with adapters.

use super::kit::model;
use crate::adapter::{Adapter, AdapterOptions};
use crate::config::ModelConfig;
use crate::decoder::{Decoder, Weights};
use crate::families::{Activation, LayerKind, LayerNorms, QkNorm, Rope, RopeScaling, find};
use crate::folder::ModelFolder;
use candle_core::{Device, Tensor};
use trainyard_core::Chance;

/// Returns models with norms and biases that affect the result.
pub(super) fn variants() -> Vec<(&'static str, ModelFolder)> {
    let base = model();
    let grouped = ModelConfig { num_attention_heads: 4, head_dim: 4, ..base.config.clone() };
    let with = |config: &ModelConfig, change: &dyn Fn(&mut ModelConfig)| {
        let mut config = config.clone();
        change(&mut config);
        config
    };
    let scaling = RopeScaling::Llama3 { factor: 4.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original: 16 };
    let configs = [
        ("plain", base.config.clone()),
        ("norms of heads", with(&grouped, &|c| (c.head_dim, c.architecture.qk_norm) = (6, QkNorm::Head))),
        (
            "ids without a token",
            with(&grouped, &|c| (c.unused_tokens, c.tie_word_embeddings) = (vec![2..4, 7..8], false)),
        ),
        (
            "biases and an untied head",
            with(&grouped, &|c| (c.architecture.attention_bias, c.tie_word_embeddings) = (true, false)),
        ),
        (
            "one key head, all biases",
            with(&grouped, &|c| {
                c.num_key_value_heads = 1;
                (c.architecture.attention_bias, c.architecture.output_bias) = (true, true);
            }),
        ),
        (
            "norms on both sides, offset, GELU, windows, two rotations",
            with(&grouped, &|c| {
                let a = &mut c.architecture;
                (a.norms, a.norm_offset, a.activation) = (LayerNorms::AROUND, 1.0, Activation::GeluTanh);
                (a.embedding_scale, a.attention_scale, a.qk_norm) = (4.0, Some(0.3), QkNorm::Head);
                a.ropes = vec![Rope { theta: 1e4, partial: 1.0, scaling: scaling.clone() }, Rope::plain(100.0)];
                a.layers[1] = LayerKind { window: Some(3), rope: Some(1) };
            }),
        ),
        (
            "norms after, norms over all heads",
            with(&grouped, &|c| (c.architecture.norms, c.architecture.qk_norm) = (LayerNorms::AFTER, QkNorm::Full)),
        ),
        (
            "scales, half a rotation, no positions",
            with(&grouped, &|c| {
                let a = &mut c.architecture;
                (a.residual_scale, a.logits_scaling) = (0.5, 2.0);
                a.ropes = vec![Rope { partial: 0.5, ..Rope::plain(1e4) }];
                a.layers[0].rope = None;
            }),
        ),
    ];
    let random_model = |(name, config): (&'static str, ModelConfig)| {
        let weights = Decoder::initialize(&config, &Chance::new(7)).and_then(|d| d.weights()).expect("random weights");
        let weights = weights.into_iter().map(randomize).collect::<Weights>();
        (name, ModelFolder { config, weights, ..base.clone() })
    };
    configs.into_iter().map(random_model).collect()
}

/// Returns the kinds of adapted models, each with random factors: all layers, some layers, layers that are joined in
/// files, with a scoring head, with dropout.
pub(super) fn adapted() -> Vec<(&'static str, ModelFolder)> {
    let some = ["k_proj", "layers.1.mlp.up_proj"].map(String::from).to_vec();
    let plain = AdapterOptions { rank: 3, alpha: 4.0, ..AdapterOptions::default() };
    let options = [
        ("plain", "all layers", plain.clone()),
        ("plain", "dropout", AdapterOptions { dropout: 0.3, ..plain.clone() }),
        ("plain", "some layers", AdapterOptions { targets: Some(some), ..plain.clone() }),
        ("biases and an untied head", "a rank above the width", AdapterOptions { rank: 20, ..plain.clone() }),
        ("norms on both sides, offset, GELU, windows, two rotations", "all layers", plain.clone()),
        ("scales, half a rotation, no positions", "stabilized rank", AdapterOptions { rslora: true, ..plain.clone() }),
        ("layers that are joined in files", "all layers", AdapterOptions { dropout: 0.2, ..plain.clone() }),
        (
            "layers that are joined in files",
            "one of them",
            AdapterOptions { targets: Some(vec!["qkv_proj".into()]), ..plain },
        ),
    ];
    let mut models = variants();
    let base = models[1].1.clone();
    let joined = ModelConfig { family: find("phi3").expect("the family"), ..base.config.clone() };
    models.push(("layers that are joined in files", ModelFolder { config: joined, ..base }));
    let with = |(name, what, options): (&str, &'static str, AdapterOptions)| {
        let (_, model) = models.iter().find(|(own, _)| *own == name).expect("a variant");
        (what, with_adapter(model, &options))
    };
    options.into_iter().map(with).collect()
}

/// Returns the model with an adapter whose factors are all random.
pub(super) fn with_adapter(model: &ModelFolder, options: &AdapterOptions) -> ModelFolder {
    let mut adapter = Adapter::new(&model.config, options, &Chance::new(5)).expect("an adapter");
    adapter.tensors = adapter.tensors.into_iter().map(randomize).collect();
    model.adapted(adapter).expect("an adapter of the model")
}

fn randomize((name, tensor): (String, Tensor)) -> (String, Tensor) {
    let mut draws = Chance::new(4).at(&name, &[]);
    let values = tensor.flatten_all().and_then(|t| t.to_vec1::<f32>()).expect("numbers");
    let values: Vec<f32> = values.into_iter().map(|v| v + 0.1 * draws.normal() as f32).collect();
    let tensor = Tensor::from_vec(values, tensor.dims(), &Device::Cpu).expect("a tensor");
    (name, tensor)
}
