//! Compares models read from GGUF files with numbers that `fixtures/make.py` computed with transformers.

use super::*;
use crate::SequenceBatch;
use crate::decoder::Decoder;
use crate::generate::Generator;
use candle_core::Device;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use trainyard_tables::SamplingParams;

#[derive(Deserialize)]
struct Expected {
    texts: BTreeMap<String, Vec<u32>>,
    sequence: Vec<u32>,
    logprobs: Vec<f32>,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gguf/fixtures").join(name)
}

fn json<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns log-probabilities of every token but the first, by the training model and by the generator.
fn logprobs(config: &ModelConfig, weights: &Weights, tokens: &[u32]) -> [Vec<f32>; 2] {
    let decoder = Decoder::from_weights(config, weights.clone()).unwrap();
    let batch = SequenceBatch::new(vec![tokens.to_vec()]).unwrap();
    let hidden = decoder.hidden_no_grad(&batch).unwrap();
    let rows: Vec<u32> = (0..tokens.len() as u32 - 1).collect();
    let trained = decoder.logprobs(&hidden, &rows, &tokens[1..], 1.0).unwrap().0.to_vec1().unwrap();
    let all = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };
    let mut generator = Generator::new(config, weights, 2).unwrap();
    let scored = generator.logprobs_of(&[tokens], &all).unwrap().remove(0);
    [trained, scored.logprobs[1..].to_vec()]
}

#[track_caller]
fn close(ours: &[f32], theirs: &[f32], bound: f32, what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (i, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() <= bound * (1.0 + b.abs()), "{what}, number {i}: {a} is not {b}");
    }
}

#[test]
fn every_quantization_gives_the_numbers_of_the_reference() {
    let expected: BTreeMap<String, Vec<f32>> = json(&fixture("blocks.json"));
    let mut file = File::open(fixture("blocks.gguf")).unwrap();
    let content = Content::read(&mut file).unwrap();
    assert_eq!((expected.len(), content.tensor_infos.len()), (13, 13));
    for (name, numbers) in expected {
        let tensor = content.tensor(&mut file, &name, &Device::Cpu).unwrap().dequantize(&Device::Cpu).unwrap();
        close(&tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap(), &numbers, 1e-6, &name);
    }
}

#[test]
fn gguf_file_yields_model_tokenizer_and_template() {
    for name in ["gemma3", "llama", "llama3", "qwen2", "qwen3"] {
        let expected: Expected = json(&fixture(&format!("{name}.json")));
        let path = fixture(&format!("{name}.gguf"));
        assert!(is_gguf(&path));
        let model = load(&path, None).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (text, ids) in &expected.texts {
            let tokenizer = model.chat.tokenizer();
            assert_eq!(&tokenizer.encode(text).unwrap(), ids, "{name}: {text:?}");
            assert_eq!(&tokenizer.decode(ids).unwrap(), text, "{name}");
        }
        let computed = logprobs(&model.config, &model.weights, &expected.sequence);
        for ours in &computed {
            close(ours, &expected.logprobs, 1e-4, name);
        }
        assert!(model.chat.template().source().contains("<|im_start|>"));
        assert_eq!(model.generation.eos_token_id, [1]);
        // The saved folder is the same model.
        let folder = tempfile::tempdir().unwrap();
        model.save(folder.path()).unwrap();
        let again = ModelFolder::load(folder.path()).unwrap();
        assert_eq!((&again.config, again.tokenizer_digest()), (&model.config, model.tokenizer_digest()), "{name}");
        assert_eq!(logprobs(&again.config, &again.weights, &expected.sequence), computed);
        let named: BTreeMap<_, _> = again.chat.tokenizer().named_tokens().into_iter().collect();
        assert!(named.contains_key("eos_token") && named.contains_key("bos_token"), "{named:?}");
    }
}

/// SentencePiece's pairs are merged by their scores, with a space before the first word (Llama 2, TinyLlama).
#[test]
fn sentence_pieces_are_merged_by_their_scores() {
    let expected: Expected = json(&fixture("tinyllama.json"));
    let parts = read(&fixture("tinyllama.gguf")).unwrap();
    for (text, ids) in &expected.texts {
        assert_eq!(&parts.tokenizer.encode(text).unwrap(), ids, "{text:?}");
    }
    for ours in logprobs(&parts.config, &parts.weights, &expected.sequence) {
        close(&ours, &expected.logprobs, 1e-4, "tinyllama");
    }
}

#[test]
fn llama_3_scaling_is_inferred_from_divisors() {
    let config = load(&fixture("llama3.gguf"), None).unwrap().config.to_json();
    assert_eq!(config["rope_scaling"]["rope_type"], "llama3");
    let numbers = ["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"];
    assert_eq!(numbers.map(|k| config["rope_scaling"][k].as_f64()), [8.0, 1.0, 4.0, 8192.0].map(Some));
}

#[test]
fn unreadable_files_are_reported_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(fixture("llama.gguf")).unwrap();
    let message = |bytes: &[u8]| {
        let path = folder.path().join("bad.gguf");
        std::fs::write(&path, bytes).unwrap();
        let error = load(&path, None).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("bad.gguf"), "{error}");
        error
    };
    message(&whole[..100]);
    let cut = message(&whole[..whole.len() - 3_000]);
    assert!(cut.contains("cannot be read") || cut.contains("not a valid GGUF"), "{cut}");
    // Names of one length, changed in place.
    let changed = |from: &str, to: &str| {
        let mut bytes = whole.clone();
        let at = bytes.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        message(&bytes)
    };
    assert!(changed("smollm", "smollx").contains("pre-tokenizer `smollx`"));
    assert!(changed("gpt2", "gptx").contains("kind `gptx`"));
    assert!(changed("blk.1.attn_norm", "blk.1.attn_nxrm").contains("`blk.1.attn_norm.weight` is missing"));
    assert!(changed("llama", "lxama").contains("architecture `lxama`"));
    assert!(changed("tokenizer.chat_template", "tokenizer.chat_templxte").contains("no chat template"));
    assert!(!is_gguf(folder.path()) && !is_gguf(&fixture("llama.json")));
}

#[test]
fn sizes_of_the_header_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.gguf");
    let whole = std::fs::read(fixture("llama.gguf")).unwrap();
    let key = b"llama.block_count";
    let at = whole.windows(key.len()).position(|w| w == key).unwrap();
    // A key is followed by the type of its value, four bytes.
    let value = at + key.len() + 4;
    let message = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let errors = [load(&path, None).map(|_| ()), read_config(&path).map(|_| ())];
        errors.map(|result| result.unwrap_err().message)
    };
    let mut layers = whole.clone();
    layers[value..value + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(message(&layers).iter().all(|m| m.contains("bad.gguf") && m.contains("num_hidden_layers")));
    // Both keys have 17 bytes.
    let mut alignment = whole;
    alignment[at..at + key.len()].copy_from_slice(b"general.alignment");
    alignment[value..value + 4].fill(0);
    assert!(message(&alignment).iter().all(|m| m.contains("bad.gguf") && m.contains("not a valid GGUF file")));
}

#[test]
fn a_pipe_is_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert!(!is_gguf(&path));
    assert!(read(&path).unwrap_err().message.contains("not a regular file"));
}

#[derive(Deserialize)]
struct Real {
    text: String,
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
}

/// Set TRAINYARD_TEST_GGUF to SmolLM2-135M-Instruct-Q4_1 and TRAINYARD_TEST_GGUF_GEMMA to Gemma-3-270M-Q4_K_M; the
/// expected numbers are those of transformers with the same files (`make.py --real`).
#[test]
fn real_files_compute_what_transformers_computes() {
    for (variable, name) in [("TRAINYARD_TEST_GGUF", "smollm2"), ("TRAINYARD_TEST_GGUF_GEMMA", "gemma3_270m")] {
        let Some(path) = std::env::var_os(variable) else { continue };
        let expected: Real = json(&fixture(&format!("{name}.real.json")));
        let parts = read(Path::new(&path)).unwrap();
        assert_eq!(parts.tokenizer.encode(&expected.text).unwrap(), expected.tokens, "{name}");
        for ours in logprobs(&parts.config, &parts.weights, &expected.tokens) {
            close(&ours, &expected.logprobs, 1e-3, name);
        }
    }
}
