//! Converts a GGUF file's metadata to the `config.json` that the model would have as a folder.

use super::metadata::Metadata;
use crate::families::{Rope, RopeScaling};
use candle_core::Device;
use candle_core::quantized::gguf_file::Content;
use serde_json::{Map, Value, json};
use std::io::{Read, Seek};
use trainyard_core::{Error, Result};

/// llama.cpp's architectures and the corresponding families.
const FAMILIES: [(&str, &str); 4] =
    [("gemma3", "gemma3_text"), ("llama", "llama"), ("qwen2", "qwen2"), ("qwen3", "qwen3")];

/// Maximum of half a head's size where the file scales each of its frequencies.
const LARGEST_HEAD: usize = 1 << 16;

/// Returns the metadata of a file as the content of a `config.json`. Errors name the missing or unsupported key.
pub(super) fn config<R: Read + Seek>(metadata: &Metadata<'_>, content: &Content, reader: &mut R) -> Result<Value> {
    let architecture = metadata.text("general.architecture")?;
    let family = FAMILIES.iter().find(|(name, _)| *name == architecture).map(|(_, family)| *family);
    let family = family.ok_or_else(|| {
        let known: Vec<&str> = FAMILIES.iter().map(|(name, _)| *name).collect();
        Error::invalid(format!("GGUF files of the architecture `{architecture}` are not supported"))
            .help(format!("use one of {}, or a Hugging Face folder", known.join(", ")))
    })?;
    let key = |name: &str| format!("{architecture}.{name}");
    let has = |tensor: &str| content.tensor_infos.contains_key(tensor);
    if metadata.get(&key("expert_count")).is_some() {
        return Err(Error::invalid("the model routes tokens to experts, which is not supported"));
    }
    let (hidden, heads) = (metadata.size(&key("embedding_length"))?, metadata.size(&key("attention.head_count"))?);
    let head_dim = match metadata.get(&key("attention.key_length")) {
        Some(_) => metadata.size(&key("attention.key_length"))?,
        None => hidden / heads.max(1),
    };
    let embeddings = content.tensor_infos.get("token_embd.weight");
    let vocabulary = embeddings.and_then(|t| t.shape.dims().first().copied());
    let mut config = json!({
        "model_type": family,
        "vocab_size": vocabulary.ok_or_else(|| Error::data("the tensor `token_embd.weight` is missing"))?,
        "hidden_size": hidden,
        "intermediate_size": metadata.size(&key("feed_forward_length"))?,
        "num_hidden_layers": metadata.size(&key("block_count"))?,
        "num_attention_heads": heads,
        "num_key_value_heads": match metadata.get(&key("attention.head_count_kv")) {
            Some(_) => metadata.size(&key("attention.head_count_kv"))?,
            None => heads,
        },
        "head_dim": head_dim,
        "rms_norm_eps": metadata.number(&key("attention.layer_norm_rms_epsilon"))?,
        "max_position_embeddings": metadata.size(&key("context_length"))?,
        "tie_word_embeddings": !has("output.weight"),
        "attention_bias": has("blk.0.attn_q.bias") && has("blk.0.attn_output.bias"),
    });
    if let Some(theta) = metadata.get(&key("rope.freq_base")).map(|_| metadata.number(&key("rope.freq_base"))) {
        config["rope_theta"] = json!(theta?);
    }
    if metadata.get(&key("attention.sliding_window")).is_some() {
        config["sliding_window"] = json!(metadata.size(&key("attention.sliding_window"))?);
    }
    for (name, token) in [("bos", "bos_token_id"), ("eos", "eos_token_id"), ("padding", "pad_token_id")] {
        if let Some(id) = metadata.token(name) {
            config[token] = json!(id);
        }
    }
    if family == "gemma3_text" {
        // As in llama.cpp, only the model of 62 layers scales by a number other than its head size.
        let largest = config["num_hidden_layers"] == 62;
        config["query_pre_attn_scalar"] = json!(if largest { hidden / heads.max(1) } else { head_dim });
    }
    if let Some(scaling) = scaling(metadata, &key)? {
        config["rope_scaling"] = scaling.into();
    }
    if has("rope_freqs.weight") {
        config["rope_scaling"] = llama3(&config, head_dim, content, reader)?;
    }
    Ok(config)
}

/// Returns `rope.scaling.*` under the names of `config.json`, or `None` if the file has no scaling.
fn scaling(metadata: &Metadata<'_>, key: &impl Fn(&str) -> String) -> Result<Option<Map<String, Value>>> {
    let Some(kind) = metadata.get(&key("rope.scaling.type")).map(|_| metadata.text(&key("rope.scaling.type"))) else {
        return Ok(None);
    };
    let kind = kind?;
    if kind == "none" {
        return Ok(None);
    }
    if metadata.get(&key("rope.scaling.attn_factor")).is_some()
        && metadata.number(&key("rope.scaling.attn_factor"))? != 1.0
    {
        return Err(Error::invalid("`rope.scaling.attn_factor` is not 1, which is not supported"));
    }
    let mut map = Map::from_iter([("rope_type".to_string(), json!(kind))]);
    let names = [
        ("factor", "factor"),
        ("original_context_length", "original_max_position_embeddings"),
        ("yarn_beta_fast", "beta_fast"),
        ("yarn_beta_slow", "beta_slow"),
    ];
    for (theirs, ours) in names {
        let key = key(&format!("rope.scaling.{theirs}"));
        if metadata.get(&key).is_some() {
            let number = metadata.number(&key)?;
            map.insert(ours.into(), if theirs.ends_with("length") { json!(number as u64) } else { json!(number) });
        }
    }
    Ok(Some(map))
}

/// Returns Llama 3's scaling, which the file keeps as a divisor for each pair, with the parameters that Meta's models
/// share.
fn llama3<R: Read + Seek>(config: &Value, head_dim: usize, content: &Content, reader: &mut R) -> Result<Value> {
    let dims = content.tensor_infos.get("rope_freqs.weight").map_or(&[][..], |info| info.shape.dims());
    if !matches!(dims, [size] if *size == head_dim / 2 && *size <= LARGEST_HEAD) {
        return Err(Error::data(format!("`rope_freqs.weight` has shape {dims:?}, not half of heads of {head_dim}"))
            .help("fetch the file again"));
    }
    let read = |e: candle_core::Error| Error::data(format!("`rope_freqs.weight` cannot be read: {e}"));
    let divisors = content.tensor(reader, "rope_freqs.weight", &Device::Cpu).map_err(read)?;
    let divisors = divisors.dequantize(&Device::Cpu).and_then(|t| t.flatten_all()?.to_vec1::<f32>()).map_err(read)?;
    let factor = divisors.iter().copied().fold(1.0, f32::max);
    let scaling =
        RopeScaling::Llama3 { factor: f64::from(factor), low_freq_factor: 1.0, high_freq_factor: 4.0, original: 8_192 };
    let plain = Rope::plain(config["rope_theta"].as_f64().unwrap_or(10_000.0));
    let frequencies = Rope { scaling: scaling.clone(), ..plain.clone() }.frequencies(head_dim);
    let found = plain.frequencies(head_dim).into_iter().zip(&divisors).map(|(f, d)| f / f64::from(*d));
    let alike = divisors.len() == frequencies.len() && found.zip(frequencies).all(|(a, b)| (a / b - 1.0).abs() < 1e-4);
    if !alike {
        return Err(Error::invalid("`rope_freqs.weight` does not scale positions as Llama 3 does")
            .help("use the model's Hugging Face folder, whose config.json names the scaling"));
    }
    Ok(scaling.to_json().into())
}
