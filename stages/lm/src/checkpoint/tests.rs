use super::*;
use crate::decoder::Decoder;
use candle_core::Device;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use std::collections::HashMap;
use trainyard_core::{Chance, ErrorKind};

/// A temporary folder, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("trainyard-checkpoint-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
    fn model(&self) -> (ModelConfig, Weights) {
        let config = ModelConfig::llama(7, 4, 6, 1, 2, 1);
        let weights = Decoder::initialize(&config, &Chance::new(1)).unwrap().weights().unwrap();
        save_model(&self.0, &config, &weights).unwrap();
        (config, weights)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn numbers(t: &Tensor) -> Vec<f32> {
    t.flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn saved_model_reloads_unchanged_with_stable_bytes() {
    let folder = Folder::new("round");
    let (config, weights) = folder.model();
    let bytes = fs::read(folder.0.join(SINGLE)).unwrap();
    let (read, back) = load_model(&folder.0).unwrap();
    assert_eq!(read, config);
    assert!(weights.iter().all(|(name, t)| numbers(t) == numbers(&back[name]) && t.dims() == back[name].dims()));
    save_model(&folder.0, &read, &back).unwrap();
    assert_eq!(fs::read(folder.0.join(SINGLE)).unwrap(), bytes);
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header.metadata(), &Some(HashMap::from([("format".to_string(), "pt".to_string())])));
}

#[test]
fn shards_contain_all_weights() {
    let folder = Folder::new("cut");
    let (config, weights) = folder.model();
    fs::remove_file(folder.0.join(SINGLE)).unwrap();
    let whole: usize = weights.values().map(Tensor::elem_count).sum();
    for (dtype, size) in [(SavedType::F32, 4), (SavedType::Bf16, 2)] {
        // Room for the largest tensor and a little more.
        let options = SaveOptions { dtype, shard_size: Some(format!("{}", 30 * size)) };
        save_model_as(&folder.0, &config, &weights, &options).unwrap();
        assert!(!folder.0.join(SINGLE).exists());
        let index = untrusted::read_json(&folder.0.join(INDEX), untrusted::INDEX).unwrap();
        assert_eq!(index["metadata"]["total_size"], serde_json::json!(whole * size));
        let map = index["weight_map"].as_object().unwrap();
        assert!(map.keys().eq(weights.keys()), "every tensor has its file");
        let files = weight_files(&folder.0).unwrap();
        assert!(files.len() > 3 && files[0].ends_with(format!("model-00001-of-{:05}.safetensors", files.len())));
        for file in &files {
            let part = load_tensors(file).unwrap();
            let bytes: usize = part.values().map(|t| t.elem_count() * size).sum();
            assert!(bytes <= 30 * size || part.len() == 1, "{bytes} bytes in {}", file.display());
        }
        let (read, back) = load_model(&folder.0).unwrap();
        assert_eq!(read, config);
        for (name, tensor) in &weights {
            for (ours, theirs) in numbers(tensor).iter().zip(numbers(&back[name])) {
                let tolerance = if dtype == SavedType::F32 { 0.0 } else { ours.abs() / 256.0 };
                assert!((ours - theirs).abs() <= tolerance, "{name}: {ours} became {theirs}");
            }
        }
        let json = untrusted::read_json(&folder.0.join("config.json"), untrusted::OPTIONS).unwrap();
        assert_eq!(json["torch_dtype"], dtype.name());
        for file in files {
            fs::remove_file(file).unwrap();
        }
    }
    let one = SaveOptions { shard_size: Some("1GB".into()), ..SaveOptions::default() };
    save_model_as(&folder.0, &config, &weights, &one).unwrap();
    assert!(folder.0.join(SINGLE).exists(), "one file is enough");
}

#[test]
fn weights_beyond_bfloat16_are_rejected_with_their_position() {
    let folder = Folder::new("beyond");
    let (config, mut weights) = folder.model();
    let shape = weights["model.norm.weight"].dims().to_vec();
    let large = Tensor::from_vec(vec![1.0f32, f32::MAX, 1.0, 1.0], shape, &Device::Cpu).unwrap();
    weights.insert("model.norm.weight".into(), large);
    let options = SaveOptions { dtype: SavedType::Bf16, ..SaveOptions::default() };
    let error = save_model_as(&folder.0, &config, &weights, &options).unwrap_err();
    assert!(error.message.contains("element 1 of `model.norm.weight`"), "{error}");
    save_model(&folder.0, &config, &weights).unwrap();
}

#[test]
fn shards_are_read_through_their_index() {
    let folder = Folder::new("shards");
    let (_, weights) = folder.model();
    fs::remove_file(folder.0.join(SINGLE)).unwrap();
    let mut map = serde_json::Map::new();
    for (i, (name, tensor)) in weights.iter().enumerate() {
        let file = format!("model-{}.safetensors", i % 2);
        map.insert(name.clone(), file.into());
        let path = folder.0.join(map[name].as_str().unwrap());
        let mut part = if path.exists() { load_tensors(&path).unwrap() } else { Weights::new() };
        part.insert(name.clone(), tensor.clone());
        save_tensors(&path, &part).unwrap();
    }
    fs::write(folder.0.join(INDEX), serde_json::json!({"weight_map": map}).to_string()).unwrap();
    assert_eq!(load_model(&folder.0).unwrap().1.len(), weights.len());
    fs::write(folder.0.join(INDEX), r#"{"weight_map": {"a": "../outside.safetensors"}}"#).unwrap();
    assert!(load_model(&folder.0).unwrap_err().message.contains("not a plain file name"));
}

#[test]
fn half_precision_becomes_single() {
    let folder = Folder::new("half");
    let path = folder.0.join("half.safetensors");
    // 1, -2, 0.5 as bf16; 1, -2, the smallest subnormal as f16
    let write = |dtype, bits: [u16; 3]| {
        let bytes: Vec<u8> = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
        let view = TensorView::new(dtype, vec![3], &bytes).unwrap();
        safetensors::serialize_to_file([("x", view)], None, &path).unwrap();
        numbers(&load_tensors(&path).unwrap()["x"])
    };
    assert_eq!(write(Dtype::BF16, [0x3f80, 0xc000, 0x3f00]), [1.0, -2.0, 0.5]);
    assert_eq!(write(Dtype::F16, [0x3c00, 0xc000, 1]), [1.0, -2.0, 2.0f32.powi(-24)]);
    let view = TensorView::new(Dtype::I8, vec![1], &[1]).unwrap();
    safetensors::serialize_to_file([("x", view)], None, &path).unwrap();
    assert!(load_tensors(&path).unwrap_err().message.contains("`x` has the type I8"));
}

#[test]
fn damaged_files_are_reported_as_data_errors() {
    let folder = Folder::new("damaged");
    folder.model();
    let path = folder.0.join(SINGLE);
    let whole = fs::read(&path).unwrap();
    for cut in [0, 5, 40, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        let error = load_model(&folder.0).unwrap_err();
        assert!(
            error.kind == ErrorKind::Data && error.message.contains("truncated") && error.message.contains(SINGLE),
            "{cut}: {error}"
        );
    }
    let mut corrupted = whole;
    corrupted[9] = 0xff;
    fs::write(&path, corrupted).unwrap();
    assert!(load_model(&folder.0).unwrap_err().message.contains("not a valid safetensors"));
    fs::remove_file(&path).unwrap();
    assert_eq!(load_model(&folder.0).unwrap_err().kind, ErrorKind::Invalid);
    fs::write(folder.0.join("config.json"), "{").unwrap();
    assert!(load_model(&folder.0).unwrap_err().message.contains("not valid JSON"));
}

#[test]
fn missing_and_misshapen_tensors_are_reported_with_both_shapes() {
    let folder = Folder::new("shapes");
    let (_, weights) = folder.model();
    let path = folder.0.join(SINGLE);
    let mut incomplete = weights.clone();
    incomplete.remove("model.norm.weight");
    save_tensors(&path, &incomplete).unwrap();
    let message = load_model(&folder.0).unwrap_err().message;
    assert!(message.contains("`model.norm.weight`") && message.contains("[4]"), "{message}");
    let mut wrong = weights;
    wrong.insert("model.norm.weight".into(), Tensor::zeros(5, DType::F32, &Device::Cpu).unwrap());
    save_tensors(&path, &wrong).unwrap();
    let message = load_model(&folder.0).unwrap_err().message;
    assert!(message.contains("[5]") && message.contains("[4]"), "{message}");
}

#[test]
fn non_finite_weights_are_rejected_on_save_and_load() {
    let folder = Folder::new("nan");
    let (config, mut weights) = folder.model();
    refuse_non_finite(&folder.0).unwrap();
    weights.insert("model.norm.weight".into(), Tensor::new(&[1.0f32, f32::NAN, 1.0, 1.0], &Device::Cpu).unwrap());
    let error = save_model(&folder.0, &config, &weights).unwrap_err();
    assert!(
        error.kind == ErrorKind::Data
            && error.message.contains("`model.norm.weight`")
            && error.message.contains("element 1"),
        "{error}"
    );
    assert!(error.help.unwrap().contains("diverged"));
    save_tensors(&folder.0.join(SINGLE), &weights).unwrap();
    let error = load_model(&folder.0).unwrap_err();
    assert!(error.message.contains("model.norm.weight") && error.help.unwrap().contains("fetch them again"));
    assert!(refuse_non_finite(&folder.0).unwrap_err().message.contains("model.norm.weight"));
}

#[test]
fn headers_are_checked_against_the_config_without_reading_weights() {
    let folder = Folder::new("headers");
    folder.model();
    let path = folder.0.join("config.json");
    let good = untrusted::read_json(&path, untrusted::OPTIONS).unwrap();
    let message = |key: &str, size: usize| {
        let mut json = good.clone();
        json[key] = size.into();
        fs::write(&path, json.to_string()).unwrap();
        read_shape(&folder.0).unwrap_err().message
    };
    assert!(message("num_hidden_layers", 9_999).contains("9999 layers"));
    assert!(message("num_hidden_layers", 2).contains("`model.layers.1."));
    assert!(message("intermediate_size", 7).contains("requires"));
    // Without weights, the config alone is checked.
    fs::remove_file(folder.0.join(SINGLE)).unwrap();
    assert_eq!(read_shape(&folder.0).unwrap().intermediate_size, 7);
}

#[test]
fn tied_heads_in_the_file_are_left_out() {
    let folder = Folder::new("tied");
    let (_, mut weights) = folder.model();
    weights.insert("lm_head.weight".into(), weights["model.embed_tokens.weight"].clone());
    save_tensors(&folder.0.join(SINGLE), &weights).unwrap();
    let (config, back) = load_model(&folder.0).unwrap();
    assert!(!back.contains_key("lm_head.weight"));
    Decoder::from_weights(&config, back).unwrap();
}
