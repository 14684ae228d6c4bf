//! Compares every family with transformers, by the fixtures of `fixtures/make.py`: training, generation, gradients,
//! files.

use super::{FAMILIES, Rope, RopeScaling, find};
use crate::batch::SequenceBatch;
use crate::checkpoint::{load_model, save_model, save_tensors};
use crate::config::ModelConfig;
use crate::decoder::{Decoder, Weights};
use crate::generate::{DrawKey, Generator, SequenceRequest, SequenceState};
use crate::optimizer::Gradients;
use candle_core::{DType, Device, Tensor};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trainyard_core::Chance;
use trainyard_tables::SamplingParams;

#[derive(Deserialize)]
struct Fixture {
    #[serde(skip)]
    name: String,
    config: Value,
    /// Names and shapes of the file's tensors.
    tensors: BTreeMap<String, Vec<usize>>,
    sequences: Vec<Row>,
    /// Mean of the negative log-probabilities of all tokens but the first of each sequence.
    loss: f64,
    /// Gradient norms of that loss, by tensor of the file.
    gradient_norms: BTreeMap<String, f64>,
    greedy: Greedy,
}

#[derive(Deserialize)]
struct Row {
    tokens: Vec<u32>,
    /// Log-probability of token t + 1 after token t.
    logprobs: Vec<f32>,
    /// Entropy of the distribution after token t.
    entropies: Vec<f32>,
    /// Log-probabilities of all tokens after the last one.
    last: Vec<f32>,
}

#[derive(Deserialize)]
struct Greedy {
    prompt: Vec<u32>,
    tokens: Vec<u32>,
}

fn fixtures() -> Vec<Fixture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/families/fixtures");
    let files = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path());
    let mut files: Vec<_> = files.filter(|f| f.extension().is_some_and(|e| e == "json")).collect();
    files.sort();
    let read = |path: &std::path::PathBuf| {
        let mut fixture: Fixture = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        fixture.name = path.file_stem().unwrap().to_string_lossy().into_owned();
        fixture
    };
    files.iter().map(read).collect()
}

/// Returns the values of the formula in `make.py`.
fn values(name: &str, shape: &[usize], centered: bool) -> Vec<f32> {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let value = |i: usize| {
        let x = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(hash);
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let unit = ((x ^ (x >> 31)) >> 40) as f64 / 8_388_608.0 - 1.0;
        let value = match (name.ends_with("norm.weight"), shape.len()) {
            (true, _) => 0.4 * unit + if centered { 0.0 } else { 1.0 },
            (false, 1) => unit * 0.3,
            (false, _) => unit * 0.5,
        };
        value as f32
    };
    (0..shape.iter().product()).map(value).collect()
}

impl Fixture {
    /// Writes the model as transformers does and loads it.
    fn load(&self) -> (ModelConfig, Weights) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), self.config.to_string()).unwrap();
        let centered = self.name.starts_with("gemma");
        let tensor = |(name, shape): (&String, &Vec<usize>)| {
            let tensor = Tensor::from_vec(values(name, shape, centered), shape.as_slice(), &Device::Cpu).unwrap();
            (name.clone(), tensor)
        };
        let tensors: Weights = self.tensors.iter().map(tensor).collect();
        save_tensors(&folder.path().join("model.safetensors"), &tensors).unwrap();
        load_model(folder.path()).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }
    fn decoder(&self) -> Decoder {
        let (config, weights) = self.load();
        Decoder::from_weights(&config, weights).unwrap()
    }
    fn generator(&self) -> Generator {
        let (config, weights) = self.load();
        Generator::new(&config, &weights, 1).unwrap()
    }
    fn batch(&self) -> SequenceBatch {
        SequenceBatch::new(self.sequences.iter().map(|s| s.tokens.clone()).collect()).unwrap()
    }
}

fn sampling(temperature: f64) -> SamplingParams {
    SamplingParams { temperature, top_p: 1.0, top_k: 0 }
}

fn request(tokens: &[u32], temperature: f64, max_new_tokens: usize) -> SequenceRequest {
    let draw = DrawKey { chance: Chance::new(8), problem: 0, sample: 0 };
    SequenceRequest {
        tokens: tokens.to_vec(),
        draw,
        sampling: sampling(temperature),
        stop_tokens: Vec::new(),
        max_new_tokens,
    }
}

#[track_caller]
fn close(ours: &[f32], theirs: &[f32], what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (i, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() < 1e-4, "{what}, number {i}: {a} is not {b}");
    }
}

/// Returns rows and targets of every token but the first of each sequence.
fn places(batch: &SequenceBatch) -> (Vec<u32>, Vec<u32>) {
    let one =
        |(i, s): (usize, &Vec<u32>)| -> Vec<(u32, u32)> { (1..s.len()).map(|t| (batch.row(i, t - 1), s[t])).collect() };
    batch.sequences().iter().enumerate().flat_map(one).unzip()
}

/// Computes the mean negative log-probability, with gradient.
fn loss(decoder: &Decoder, batch: &SequenceBatch) -> Tensor {
    let (rows, targets) = places(batch);
    let hidden = decoder.hidden(batch).unwrap();
    decoder.logprobs(&hidden, &rows, &targets, 1.0).unwrap().0.mean_all().unwrap().neg().unwrap()
}

#[test]
fn every_family_has_a_fixture() {
    let kinds: BTreeSet<String> = fixtures().iter().map(|f| f.config["model_type"].as_str().unwrap().into()).collect();
    assert_eq!(kinds, FAMILIES.iter().map(|f| f.name.to_string()).collect());
    assert!(FAMILIES.is_sorted_by(|a, b| a.name < b.name));
}

#[test]
fn training_computes_what_transformers_computes() {
    for fixture in fixtures() {
        let (decoder, batch) = (fixture.decoder(), fixture.batch());
        let hidden = decoder.hidden_no_grad(&batch).unwrap();
        for (i, row) in fixture.sequences.iter().enumerate() {
            let n = row.tokens.len();
            let rows: Vec<u32> = (0..n - 1).map(|t| batch.row(i, t)).collect();
            let (p, h) = decoder.logprobs(&hidden, &rows, &row.tokens[1..], 1.0).unwrap();
            close(&p.to_vec1::<f32>().unwrap(), &row.logprobs, &fixture.name);
            close(&h.to_vec1::<f32>().unwrap(), &row.entropies, &fixture.name);
            let all: Vec<u32> = (0..row.last.len() as u32).collect();
            let rows = vec![batch.row(i, n - 1); all.len()];
            let last = decoder.logprobs(&hidden, &rows, &all, 1.0).unwrap().0;
            close(&last.to_vec1::<f32>().unwrap(), &row.last, &fixture.name);
        }
    }
}

#[test]
fn generation_computes_what_transformers_computes() {
    for fixture in fixtures() {
        let mut generator = fixture.generator();
        let sequences: Vec<&[u32]> = fixture.sequences.iter().map(|s| s.tokens.as_slice()).collect();
        let scored = generator.logprobs_of(&sequences, &sampling(1.0)).unwrap();
        for (row, scored) in fixture.sequences.iter().zip(scored) {
            close(&scored.logprobs[1..], &row.logprobs, &fixture.name);
            close(&scored.entropies[1..], &row.entropies, &fixture.name);
        }
        let Greedy { prompt, tokens } = &fixture.greedy;
        let made = generator.generate(vec![request(prompt, 0.0, tokens.len())]).unwrap().remove(0);
        assert_eq!(&made.token_ids[prompt.len()..], tokens, "{}", fixture.name);
    }
}

/// Compares decoding token by token with a cache, far beyond every window, with one forward pass.
#[test]
fn sampling_records_what_training_computes() {
    for fixture in fixtures() {
        let (decoder, mut generator) = (fixture.decoder(), fixture.generator());
        let state: SequenceState = generator.generate(vec![request(&[3, 1, 4], 1.0, 45)]).unwrap().remove(0);
        assert_eq!(state.token_ids.len(), 48);
        let scored = generator.logprobs_of(&[&state.token_ids], &sampling(1.0)).unwrap().remove(0);
        assert_eq!(scored.logprobs[3..], state.logprobs[3..], "{}", fixture.name);
        let batch = SequenceBatch::new(vec![state.token_ids.clone()]).unwrap();
        let (rows, targets) = places(&batch);
        let hidden = decoder.hidden_no_grad(&batch).unwrap();
        let (p, h) = decoder.logprobs(&hidden, &rows, &targets, 1.0).unwrap();
        close(&p.to_vec1::<f32>().unwrap()[2..], &state.logprobs[3..], &fixture.name);
        close(&h.to_vec1::<f32>().unwrap()[2..], &state.entropies[3..], &fixture.name);
    }
}

/// Returns the names of the parts of a tensor that files keep fused.
fn parts(name: &str) -> Vec<String> {
    let wholes = [("qkv_proj", &["q_proj", "k_proj", "v_proj"][..]), ("gate_up_proj", &["gate_proj", "up_proj"])];
    for (fused, parts) in wholes {
        if name.contains(fused) {
            return parts.iter().map(|part| name.replace(fused, part)).collect();
        }
    }
    vec![name.to_string()]
}

#[test]
fn loss_and_gradient_norms_are_those_of_transformers() {
    for fixture in fixtures() {
        let decoder = fixture.decoder();
        let loss = loss(&decoder, &fixture.batch());
        let value = f64::from(loss.to_scalar::<f32>().unwrap());
        assert!((value - fixture.loss).abs() < 1e-4, "{}: {value} is not {}", fixture.name, fixture.loss);
        let gradients = Gradients::collect(decoder.parameters(), loss.backward().unwrap()).unwrap();
        for (name, theirs) in &fixture.gradient_norms {
            let parts = parts(name);
            let numbers = parts.iter().flat_map(|part| gradients.get(part).unwrap());
            let ours = numbers.map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
            assert!((ours - theirs).abs() < 1e-4 * (1.0 + theirs), "{}: {name}: {ours} is not {theirs}", fixture.name);
        }
    }
}

#[test]
fn gradients_agree_with_finite_differences() {
    const STEP: f64 = 1e-5;
    for fixture in fixtures() {
        let (config, weights) = fixture.load();
        let double = |(name, t): (String, Tensor)| (name, t.to_dtype(DType::F64).unwrap());
        let decoder = Decoder::from_weights(&config, weights.into_iter().map(double).collect()).unwrap();
        let short = |s: &Row| s.tokens[..s.tokens.len().min(12)].to_vec();
        let batch = SequenceBatch::new(fixture.sequences.iter().map(short).collect()).unwrap();
        let grads = loss(&decoder, &batch).backward().unwrap();
        for (name, var) in decoder.parameters() {
            let flat = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f64>().unwrap();
            let gradient = flat(grads.get(var).expect(name));
            let values = flat(var.as_tensor());
            for place in [values.len() / 3, values.len() - 1] {
                let at = |shift: f64| {
                    let mut moved = values.clone();
                    moved[place] += shift;
                    var.set(&Tensor::from_vec(moved, var.shape(), &Device::Cpu).unwrap()).unwrap();
                    loss(&decoder, &batch).to_scalar::<f64>().unwrap()
                };
                let slope = (at(STEP) - at(-STEP)) / (2.0 * STEP);
                let found = gradient[place];
                let bound = 1e-7 + 1e-5 * slope.abs();
                assert!((slope - found).abs() < bound, "{}: {name}[{place}]: {slope} is not {found}", fixture.name);
            }
            var.set(&Tensor::from_vec(values, var.shape(), &Device::Cpu).unwrap()).unwrap();
        }
    }
}

/// With `TRAINYARD_TEST_SAVED` set to a folder, the saved files stay there for `make.py --check`.
#[test]
fn saved_models_reload() {
    for fixture in fixtures() {
        let (config, weights) = fixture.load();
        assert_eq!(ModelConfig::from_json(&config.to_json()).unwrap(), config, "{}", fixture.name);
        let kept = std::env::var_os("TRAINYARD_TEST_SAVED");
        let folder = tempfile::tempdir().unwrap();
        let folder = kept.map_or(folder.path().to_path_buf(), |kept| Path::new(&kept).join(&fixture.name));
        std::fs::create_dir_all(&folder).unwrap();
        save_model(&folder, &config, &weights).unwrap();
        let saved = crate::checkpoint::load_tensors(&folder.join("model.safetensors")).unwrap();
        let tied = |name: &&String| !(config.tie_word_embeddings && *name == "lm_head.weight");
        assert!(saved.keys().eq(fixture.tensors.keys().filter(tied)), "{}", fixture.name);
        let (again, back) = load_model(&folder).unwrap();
        assert_eq!(again, config);
        let bits = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert!(weights.iter().all(|(name, t)| bits(t) == bits(&back[name])) && weights.len() == back.len());
    }
}

fn rope(config: Value) -> Vec<Rope> {
    let mut whole = json!({"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 9,
        "num_attention_heads": 4, "max_position_embeddings": 512});
    whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    ModelConfig::from_json(&whole).unwrap().architecture.ropes
}

#[test]
fn both_spellings_of_rotary_scaling_are_read_alike() {
    let llama3 = json!({"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 128, "rope_type": "llama3"});
    let mut newer = llama3.clone();
    newer["rope_theta"] = json!(5e5);
    let old = rope(json!({"model_type": "llama", "rope_theta": 5e5, "rope_scaling": llama3}));
    assert_eq!(old, rope(json!({"model_type": "llama", "rope_parameters": newer})));
    assert!(matches!(old[0].scaling, RopeScaling::Llama3 { factor: 8.0, original: 128, .. }));

    let old = rope(json!({"model_type": "gemma3_text", "rope_theta": 1e6, "rope_local_base_freq": 2e4,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0}}));
    let newer = rope(json!({"model_type": "gemma3_text", "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}}}));
    assert_eq!(old, newer);
    assert_eq!(old[1], Rope::plain(2e4));

    let lists = |key: &str| json!({key: "longrope", "short_factor": vec![1.1; 6], "long_factor": vec![7.0; 6]});
    let mut older = json!({"model_type": "phi3", "partial_rotary_factor": 0.75, "rope_theta": 1e4,
        "original_max_position_embeddings": 128, "rope_scaling": lists("type")});
    let old = rope(older.clone());
    let mut parameters = lists("rope_type");
    parameters["partial_rotary_factor"] = json!(0.75);
    older["rope_scaling"] = Value::Null;
    older["rope_parameters"] = parameters;
    assert_eq!(old, rope(older));
    assert_eq!((old[0].dim(16), old[0].limit()), (12, Some(128)));
}

/// Longer sequences are rejected, because their rotation would change the angles of the first tokens, which are already
/// in the cache.
#[test]
fn sequences_beyond_longropes_original_length_are_rejected() {
    let fixture = fixtures().into_iter().find(|f| f.name == "phi4").unwrap();
    let (decoder, mut generator) = (fixture.decoder(), fixture.generator());
    assert_eq!(generator.positions(), 64);
    let long = SequenceBatch::new(vec![vec![1; 65]]).unwrap();
    assert!(decoder.hidden(&long).unwrap_err().message.contains("64 positions"));
    assert!(generator.add(request(&[1; 65], 1.0, 1)).is_err());
}

#[test]
fn unknown_family_error_lists_known_families() {
    let error = find("abacus").unwrap_err();
    assert!(error.message.contains("`abacus`") && error.help.is_some_and(|h| h.contains("smollm3")));
}
