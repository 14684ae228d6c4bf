//! Compares adapters with PEFT, with dense models, and with the definition.

use super::*;
use crate::backend::conformance::model as tiny;
use crate::backend::cpu::Cpu;
use crate::backend::{Backend, LearnerOptions, OutputGradients, TokenPosition, TrainableParameters};
use crate::checkpoint::load_model;
use crate::decoder::{Decoder, Weights};
use crate::families::find;
use crate::folder::ModelFolder;
use crate::generate::{DrawKey, Generator, SequenceRequest};
use crate::optimizer::AdamWConfig;
use serde_json::Value;
use std::path::{Path, PathBuf};
use trainyard_core::ErrorKind;
use trainyard_tables::SamplingParams;

const GREEDY: SamplingParams = SamplingParams { temperature: 0.0, top_p: 1.0, top_k: 0 };
const FULL: SamplingParams = SamplingParams { temperature: 1.0, ..GREEDY };

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/adapter/fixtures")
}

/// Returns an adapter with random factors.
pub fn random_adapter(config: &ModelConfig, options: &AdapterOptions) -> Adapter {
    let mut adapter = Adapter::new(config, options, &Chance::new(5)).unwrap();
    for (name, tensor) in &mut adapter.tensors {
        let mut draws = Chance::new(6).at(name, &[]);
        let values: Vec<f32> = (0..tensor.elem_count()).map(|_| (0.3 * draws.normal()) as f32).collect();
        *tensor = Tensor::from_vec(values, tensor.dims(), &Device::Cpu).unwrap();
    }
    adapter
}

fn options(rank: usize) -> AdapterOptions {
    AdapterOptions { rank, alpha: 2.0 * rank as f64, ..AdapterOptions::default() }
}

fn flat(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap()
}

fn greedy(generator: &mut Generator, prompt: &[u32], max_new_tokens: usize) -> Vec<u32> {
    let draw = DrawKey { chance: Chance::new(1), problem: 0, sample: 0 };
    let request =
        SequenceRequest { tokens: prompt.to_vec(), draw, sampling: GREEDY, stop_tokens: Vec::new(), max_new_tokens };
    generator.generate(vec![request]).unwrap().remove(0).token_ids
}

#[test]
fn peft_adapter_reproduces_numbers_gradients_and_tokens() {
    let (config, weights) = load_model(&fixtures().join("base")).unwrap();
    let adapter = peft::load(&fixtures(), &config).unwrap();
    assert_eq!((adapter.rank, adapter.alpha, adapter.rslora), (3, 5.0, true));
    assert!((adapter.scale() - 5.0 / 3f64.sqrt()).abs() < 1e-12 && adapter.layers().len() == 10);
    expect_peft_values(&fixtures(), &config, &weights, &adapter);
}

/// PEFT gives layers that are joined in one tensor one A and one B.
#[test]
fn fused_layer_adapter_matches_peft_and_keeps_its_names() {
    let folder = fixtures().join("phi3");
    let (config, weights) = load_model(&folder.join("base")).unwrap();
    let adapter = peft::load(&folder, &config).unwrap();
    let layers: Vec<&str> = adapter.layers().into_iter().take(3).collect();
    assert_eq!(
        layers,
        ["mlp.gate_up_proj", "self_attn.o_proj", "self_attn.qkv_proj"].map(|n| "model.layers.0.".to_string() + n)
    );
    expect_peft_values(&folder, &config, &weights, &adapter);
    let saved = tempfile::tempdir().unwrap();
    peft::save(saved.path(), &config, &adapter).unwrap();
    let file = |folder: &Path, name: &str| std::fs::read(folder.join(name)).unwrap();
    let tensors = |folder: &Path| crate::checkpoint::load_tensors(&folder.join(peft::TENSORS)).unwrap();
    let (ours, theirs) = (tensors(saved.path()), tensors(&folder));
    assert!(ours.keys().eq(theirs.keys()) && ours.iter().all(|(name, t)| flat(t) == flat(&theirs[name])));
    let options: Value = serde_json::from_slice(&file(saved.path(), peft::CONFIG)).unwrap();
    assert_eq!(options["target_modules"], serde_json::json!(["gate_up_proj", "o_proj", "qkv_proj"]));
}

fn expect_peft_values(folder: &Path, config: &ModelConfig, weights: &Weights, adapter: &Adapter) {
    let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let lists = |key: &str| serde_json::from_value::<Vec<Vec<f64>>>(expected[key].clone()).unwrap();
    let sequences: Vec<Vec<u32>> =
        lists("sequences").into_iter().map(|s| s.into_iter().map(|t| t as u32).collect()).collect();

    let decoder = Decoder::new(config, weights.clone(), Some(adapter), |name| name.contains("lora_")).unwrap();
    let batch = crate::batch::SequenceBatch::new(sequences.clone()).unwrap();
    let (mut rows, mut targets) = (Vec::new(), Vec::new());
    for (i, sequence) in sequences.iter().enumerate() {
        rows.extend((1..sequence.len()).map(|t| batch.row(i, t - 1)));
        targets.extend(&sequence[1..]);
    }
    let (logprobs, _) = decoder.logprobs(&decoder.hidden(&batch).unwrap(), &rows, &targets, 1.0).unwrap();
    for (ours, theirs) in flat(&logprobs).iter().zip(lists("logprobs").concat()) {
        assert!((f64::from(*ours) - theirs).abs() < 1e-4, "{ours} is not {theirs}");
    }
    let gradients = (logprobs.sum_all().unwrap() * -0.1).unwrap().backward().unwrap();
    let theirs: BTreeMap<String, Vec<f64>> = serde_json::from_value(expected["gradients"].clone()).unwrap();
    assert!(theirs.keys().eq(decoder.parameters().keys()), "the same parameters learn");
    for (name, theirs) in theirs {
        let ours = flat(gradients.get(decoder.parameters()[&name].as_tensor()).unwrap());
        for (a, b) in ours.iter().zip(&theirs) {
            assert!((f64::from(*a) - b).abs() < 1e-4 * (1.0 + b.abs()), "{name}: {a} is not {b}");
        }
    }
    let mut unmerged = Generator::adapted(config, weights, Some(adapter), 1).unwrap();
    let mut merged = Generator::new(config, &adapter.merged(config, weights).unwrap(), 1).unwrap();
    for (prompt, tokens) in sequences.iter().zip(lists("greedy")) {
        let tokens: Vec<u32> = tokens.into_iter().map(|t| t as u32).collect();
        assert_eq!(greedy(&mut unmerged, prompt, 12), tokens);
        assert_eq!(greedy(&mut merged, prompt, 12), tokens);
    }
}

#[test]
fn unmerged_adapter_samples_like_the_merged_model() {
    let mut qwen2 = ModelConfig::llama(29, 32, 40, 2, 4, 2);
    (qwen2.family, qwen2.architecture.attention_bias, qwen2.tie_word_embeddings) =
        (find("qwen2").unwrap(), true, false);
    let mut qwen3 = ModelConfig::llama(29, 32, 40, 2, 4, 2).as_qwen3();
    qwen3.head_dim = 12;
    // Norms after the branches, and scales that the sampler multiplies into its matrices.
    let mut scaled = ModelConfig::llama(29, 32, 40, 2, 4, 2);
    (scaled.architecture.residual_scale, scaled.architecture.logits_scaling) = (0.4, 3.0);
    let mut norms_after = scaled.clone();
    (norms_after.architecture.norms.attention_out, norms_after.architecture.norms.mlp_out) =
        (Some("post_attention_norm"), Some("post_mlp_norm"));
    let some = |targets: &[&str]| Some(targets.iter().map(|t| t.to_string()).collect());
    let partial = AdapterOptions { targets: some(&["k_proj", "layers.1.mlp.up_proj"]), ..options(5) };
    let joined = ModelConfig { family: find("phi3").unwrap(), ..ModelConfig::llama(29, 32, 40, 2, 4, 2) };
    let two = AdapterOptions { targets: some(&["qkv_proj", "layers.1.mlp.gate_up_proj"]), ..options(5) };
    let cases =
        [ModelConfig::llama(29, 32, 40, 2, 4, 4), qwen2, qwen3, scaled, norms_after].map(|c| (c, partial.clone()));
    for (config, partial) in cases.into_iter().chain([(joined, two)]) {
        let weights = Decoder::initialize(&config, &Chance::new(3)).unwrap().weights().unwrap();
        for options in [options(4), partial, options(40)] {
            let adapter = random_adapter(&config, &options);
            let mut unmerged = Generator::adapted(&config, &weights, Some(&adapter), 2).unwrap();
            let mut merged = Generator::new(&config, &adapter.merged(&config, &weights).unwrap(), 2).unwrap();
            let tokens: Vec<u32> = (0..60).map(|t| (t * t + 3) % 29).collect();
            let [a, b] =
                [&mut unmerged, &mut merged].map(|g| g.logprobs_of(&[&tokens], &FULL).unwrap().remove(0).logprobs);
            let off = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-5, "{off}");
            // The learner computes the same model.
            let decoder = Decoder::new(&config, weights.clone(), Some(&adapter), |_| false).unwrap();
            let batch = crate::batch::SequenceBatch::new(vec![tokens.clone()]).unwrap();
            let rows: Vec<u32> = (0..59).collect();
            let learned = decoder.hidden_no_grad(&batch).and_then(|h| decoder.logprobs(&h, &rows, &tokens[1..], 1.0));
            let off = flat(&learned.unwrap().0).iter().zip(&a[1..]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-4, "{off}");
        }
    }
}

#[test]
fn new_adapter_changes_no_bit() {
    let config = tiny().config;
    let adapter = Adapter::new(&config, &options(4), &Chance::new(2)).unwrap();
    assert_eq!(adapter.layers().len(), 14);
    let weights = tiny().weights;
    let tokens: Vec<u32> = (0..40).map(|t| t * 3 % 30).collect();
    let mut with = Generator::adapted(&config, &weights, Some(&adapter), 1).unwrap();
    let mut without = Generator::new(&config, &weights, 1).unwrap();
    let [with, without] = [&mut with, &mut without].map(|g| g.logprobs_of(&[&tokens], &FULL).unwrap());
    assert_eq!(with, without);
}

const TOKENS: [&[u32]; 2] = [&[10, 11, 12, 13, 14, 15], &[20, 21, 22]];

/// Returns the losses of some steps of a learner on [`TOKENS`].
fn losses(model: &ModelFolder, learns: TrainableParameters, rate: f64, steps: usize) -> Vec<f64> {
    let optimizer = AdamWConfig { weight_decay: 0.0, max_norm: None, ..AdamWConfig::default() };
    let options = LearnerOptions { optimizer, trainable: learns, ..LearnerOptions::default() };
    let mut learner = Cpu.learner(model, &options).unwrap();
    let positions = TokenPosition::from_masks(&TOKENS.map(|t| vec![true; t.len()]));
    let slopes = vec![-1.0 / positions.len() as f64; positions.len()];
    let step = |_| {
        let outputs = learner.forward(&TOKENS, &positions, 1.0).unwrap();
        learner.backward(&OutputGradients { logprobs: &slopes, ..OutputGradients::default() }).unwrap();
        learner.step(rate).unwrap();
        -outputs.logprobs.iter().sum::<f64>() / positions.len() as f64
    };
    (0..steps).map(step).collect()
}

/// With A = 1 and B = 0 the gradient of B is that of the weight and that of A is 0, so the first step equals the dense
/// model's; for Adam's later ones the test can only require the same direction.
#[test]
fn full_rank_adapter_learns_like_dense_layers() {
    let model = tiny();
    let targets = Some(vec!["q_proj".to_string(), "v_proj".into(), "up_proj".into()]);
    let mut adapter = Adapter::new(
        &model.config,
        &AdapterOptions { rank: 16, alpha: 16.0, targets, ..AdapterOptions::default() },
        &Chance::new(1),
    )
    .unwrap();
    let layers: Vec<String> = adapter.layers().into_iter().map(str::to_string).collect();
    for layer in &layers {
        adapter
            .tensors
            .insert(format!("{layer}{DOWN}"), Tensor::eye(16, candle_core::DType::F32, &Device::Cpu).unwrap());
    }
    let positions = TokenPosition::from_masks(&TOKENS.map(|t| vec![true; t.len()]));
    let slopes = vec![-0.1; positions.len()];
    let step = |model: &ModelFolder, learns| {
        let optimizer = AdamWConfig { weight_decay: 0.0, max_norm: None, ..AdamWConfig::default() };
        let mut learner =
            Cpu.learner(model, &LearnerOptions { optimizer, trainable: learns, ..LearnerOptions::default() }).unwrap();
        learner.forward(&TOKENS, &positions, 1.0).unwrap();
        learner.backward(&OutputGradients { logprobs: &slopes, ..OutputGradients::default() }).unwrap();
        learner.step(1e-3).unwrap();
        model.with_parameters(&learner.weights().unwrap()).unwrap().merged().unwrap().weights
    };
    let dense = step(&model, TrainableParameters::All);
    let adapted = step(&model.adapted(adapter.clone()).unwrap(), TrainableParameters::Adapter);
    for name in layers.iter().map(|layer| format!("{layer}.weight")) {
        let (dense, adapted, before) = (flat(&dense[&name]), flat(&adapted[&name]), flat(&model.weights[&name]));
        assert!(dense != before, "{name} has moved");
        for (a, b) in dense.iter().zip(&adapted) {
            assert!((a - b).abs() < 2e-6, "{name}: {a} {b}");
        }
    }
    let [dense, adapted] =
        [(&model, TrainableParameters::All), (&model.adapted(adapter).unwrap(), TrainableParameters::Adapter)]
            .map(|(m, l)| losses(m, l, 3e-3, 30));
    assert!((dense[0] - adapted[0]).abs() < 1e-6);
    assert!(dense[29] < 0.7 * dense[0] && adapted[29] < 0.8 * adapted[0], "{dense:?} {adapted:?}");
}

#[test]
fn only_the_adapter_learns_and_dropout_is_drawn_from_the_seed() {
    let model = tiny();
    let dropped = AdapterOptions { dropout: 0.4, ..options(4) };
    let with = |options: &AdapterOptions| model.adapted(random_adapter(&model.config, options)).unwrap();
    let run = |model: &ModelFolder, seed: u64| {
        let options = LearnerOptions { trainable: TrainableParameters::Adapter, seed, ..LearnerOptions::default() };
        let mut learner = Cpu.learner(model, &options).unwrap();
        assert!(learner.parameters().iter().all(|(name, _)| name.contains(".lora_")));
        let positions = TokenPosition::from_masks(&TOKENS.map(|t| vec![true; t.len()]));
        let evaluated = learner.evaluate(&TOKENS, &positions, 1.0).unwrap().logprobs;
        let first = learner.forward(&TOKENS, &positions, 1.0).unwrap().logprobs;
        let second = learner.forward(&TOKENS, &positions, 1.0).unwrap().logprobs;
        (evaluated, first, second)
    };
    let plain = run(&with(&options(4)), 1);
    assert!(plain.0 == plain.1 && plain.1 == plain.2, "without dropout every pass is the same");
    let one = run(&with(&dropped), 1);
    assert_eq!(one.0, plain.0, "an evaluation drops nothing");
    assert!(one.1 != one.0 && one.2 != one.1, "every pass draws anew");
    assert_eq!(one, run(&with(&dropped), 1));
    assert_ne!(one.1, run(&with(&dropped), 2).1);
    let fixed = with(&options(4));
    let learner =
        Cpu.learner(&fixed, &LearnerOptions { trainable: TrainableParameters::Nothing, ..LearnerOptions::default() });
    assert!(learner.unwrap().parameters().is_empty());
}

#[test]
fn saved_adapter_model_reloads_and_keeps_base_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let prompt = [10, 11, 12];
    let (base, first, second, whole) = (at("base"), at("first"), at("second"), at("whole"));
    tiny().save(&base).unwrap();
    let model = ModelFolder::load(&base).unwrap();
    let adapted = model.adapted(random_adapter(&model.config, &options(4))).unwrap();
    let tokens = greedy(&mut adapted.generator(1).unwrap(), &prompt, 20);
    assert_ne!(tokens, greedy(&mut model.generator(1).unwrap(), &prompt, 20), "the adapter changes the model");
    adapted.save(&first).unwrap();
    let read = ModelFolder::load(&first).unwrap();
    read.save(&second).unwrap();
    let weights = |folder: &Path| std::fs::read(folder.join("model.safetensors")).unwrap();
    for saved in [&first, &second] {
        assert_eq!(weights(&saved.join("base")), weights(&base), "the base is the very same file");
        assert!(!saved.join("model.safetensors").exists(), "and nowhere else");
        crate::checkpoint::refuse_non_finite(saved).unwrap();
        assert_eq!(greedy(&mut ModelFolder::load(saved).unwrap().generator(1).unwrap(), &prompt, 20), tokens);
    }
    let file = |folder: &Path| std::fs::read(folder.join(peft::TENSORS)).unwrap();
    assert_eq!(file(&first), file(&second));
    read.merged().unwrap().save(&whole).unwrap();
    let merged = ModelFolder::load(&whole).unwrap();
    assert!(merged.adapter.is_none());
    assert_eq!(greedy(&mut merged.generator(1).unwrap(), &prompt, 20), tokens);
}

#[test]
fn scoring_head_is_saved_with_the_adapter() {
    let model = tiny();
    let adapted = model.adapted(random_adapter(&model.config, &options(2))).unwrap();
    let head = crate::backend::LearnerHead::Scores(1);
    let options = LearnerOptions { head, trainable: TrainableParameters::Adapter, ..LearnerOptions::default() };
    let mut learner = Cpu.learner(&adapted, &options).unwrap();
    let positions = TokenPosition::from_masks(&TOKENS.map(|t| vec![true; t.len()]));
    for _ in 0..2 {
        learner.forward(&TOKENS, &positions, 1.0).unwrap();
        learner
            .backward(&OutputGradients { values: &vec![1.0; positions.len()], ..OutputGradients::default() })
            .unwrap();
        learner.step(1e-2).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    adapted.with_parameters(&learner.weights().unwrap()).unwrap().save(folder.path()).unwrap();
    let read = ModelFolder::load(folder.path()).unwrap();
    assert_eq!(read.config.num_labels, Some(1));
    let text = std::fs::read_to_string(folder.path().join(peft::CONFIG)).unwrap();
    assert!(text.contains("TOKEN_CLS") && text.contains("modules_to_save"), "{text}");
    let expected = learner.evaluate(&TOKENS, &positions, 1.0).unwrap().values;
    for model in [read.clone(), read.merged().unwrap()] {
        let mut generator = model.generator(1).unwrap();
        let values = generator.score(&TOKENS, &[&[0, 1, 2, 3, 4], &[0, 1]]).unwrap().concat();
        for (ours, theirs) in values.iter().zip(&expected) {
            assert!((f64::from(*ours) - theirs).abs() < 1e-4, "{ours} is not {theirs}");
        }
    }
}

#[test]
fn unknown_targets_are_reported_with_the_known_ones() {
    let config = tiny().config;
    let wrong = AdapterOptions { targets: Some(vec!["q_proj".into(), "query".into()]), ..options(2) };
    let error = Adapter::new(&config, &wrong, &Chance::new(1)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    let help = error.help.unwrap();
    assert!(error.message.contains("`query`") && help.contains("down_proj") && help.contains("q_proj"), "{help}");
    // Half of a name does not match.
    let half = AdapterOptions { targets: Some(vec!["proj".into()]), ..options(2) };
    assert!(Adapter::new(&config, &half, &Chance::new(1)).is_err());
    let one = AdapterOptions { targets: Some(vec!["layers.1.mlp.up_proj".into()]), ..options(2) };
    let adapter = Adapter::new(&config, &one, &Chance::new(1)).unwrap();
    assert!(adapter.layers().into_iter().eq(["model.layers.1.mlp.up_proj"]));
    assert!(adapter.expect(&config, &one).is_ok());
    let message = adapter.expect(&config, &options(2)).unwrap_err().message;
    assert!(message.contains("1 layers") && message.contains("14"), "{message}");
    let other = AdapterOptions { rank: 3, ..one };
    assert!(adapter.expect(&config, &other).unwrap_err().message.contains("rank 2"));
}

#[test]
fn unsupported_adapter_options_are_rejected_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny().config;
    let adapter = random_adapter(&config, &options(2));
    peft::save(folder.path(), &config, &adapter).unwrap();
    let path = folder.path().join(peft::CONFIG);
    let original: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let cases = [
        ("peft_type", "IA3".into()),
        ("use_dora", true.into()),
        ("bias", "all".into()),
        ("rank_pattern", serde_json::json!({"q_proj": 4})),
        ("modules_to_save", serde_json::json!(["embed_tokens"])),
        ("fan_in_fan_out", true.into()),
        ("r", Value::Null),
        ("lora_alpha", "much".into()),
    ];
    for (key, value) in cases {
        let mut changed = original.clone();
        changed[key] = value;
        std::fs::write(&path, changed.to_string()).unwrap();
        let error = peft::load(folder.path(), &config).unwrap_err();
        assert!(error.message.contains(key), "{key}: {error}");
    }
    std::fs::write(&path, original.to_string()).unwrap();
    let other = ModelConfig { intermediate_size: 33, ..config.clone() };
    assert_eq!(peft::load(folder.path(), &other).unwrap_err().kind, ErrorKind::Data);
    let joined = ModelConfig { family: find("phi3").unwrap(), ..config.clone() };
    let error = peft::load(folder.path(), &joined).unwrap_err();
    assert!(error.message.contains("no linear layer") && error.help.unwrap().contains("qkv_proj"), "{}", error.message);
    let mut incomplete = adapter;
    incomplete.tensors.remove("model.layers.0.mlp.up_proj.lora_B.weight");
    assert!(incomplete.check(&config).unwrap_err().message.contains("lacks `model.layers.0.mlp.up_proj.lora_B"));
    let error = ModelFolder::load(folder.path()).unwrap_err();
    assert!(!folder.path().join("base").exists() && error.kind == ErrorKind::Invalid, "{error}");
}

/// A base model's weights are trained only without an adapter, and never with one.
#[test]
fn model_and_adapter_folders_are_not_confused() {
    let model = tiny();
    let adapted = model.adapted(random_adapter(&model.config, &options(2))).unwrap();
    let learner = |model: &ModelFolder, learns| {
        Cpu.learner(model, &LearnerOptions { trainable: learns, ..LearnerOptions::default() }).err().map(|e| e.kind)
    };
    assert_eq!(learner(&adapted, TrainableParameters::All), Some(ErrorKind::Bug));
    assert_eq!(learner(&model, TrainableParameters::Adapter), Some(ErrorKind::Bug));
    let weights: Weights = adapted.merged().unwrap().weights;
    assert!(weights.keys().eq(model.weights.keys()));
}
