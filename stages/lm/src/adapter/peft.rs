//! Reads and writes adapters in PEFT's files, `adapter_config.json` and `adapter_model.safetensors`.
//!
//! Reading checks the options: an option that changes the computation in a way that [`Adapter`] does not support is an
//! error and is never ignored. The tensors determine the adapted layers, since `target_modules` may be a pattern.

use super::{Adapter, AdapterShape, DOWN, expect_shapes, linear_layers};
use crate::checkpoint::{load_shapes, load_tensors, save_tensors};
use crate::config::ModelConfig;
use crate::tensor::candle;
use crate::untrusted;
use candle_core::DType;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Options of an adapter, at the top of its folder.
pub const CONFIG: &str = "adapter_config.json";
/// The tensors of an adapter, and the folder of its base model within the adapter's folder.
pub use crate::checkpoint::{ADAPTER as TENSORS, BASE};

/// Prefix of PEFT's tensor names: PEFT wraps the model twice.
const PREFIX: &str = "base_model.model.";

/// Returns whether a folder contains an adapter.
pub fn is_adapter(folder: &Path) -> bool {
    folder.join(CONFIG).exists()
}

/// Reads the adapter of a folder for a base model of this config.
///
/// Errors: invalid, if the adapter requires an unsupported option; data, if it does not fit the model or is not finite.
pub fn load(folder: &Path, config: &ModelConfig) -> Result<Adapter> {
    read(folder, config).map_err(|e| e.at(folder.display()))
}

fn read(folder: &Path, config: &ModelConfig) -> Result<Adapter> {
    let PeftConfig { rank, alpha, dropout, rslora } = PeftConfig::read(folder)?;
    let mut tensors = BTreeMap::new();
    for (name, tensor) in load_tensors(&folder.join(TENSORS))? {
        tensors.insert(own_name(&name)?, tensor.to_dtype(DType::F32).map_err(candle)?);
    }
    crate::checkpoint::expect_finite_input(&tensors)?;
    let adapter = Adapter { rank, alpha, dropout, rslora, tensors };
    adapter.check(config)?;
    Ok(adapter)
}

/// Reads the shape of the adapter of a folder, without its numbers. Errors: as [`load`].
pub fn read_shape(folder: &Path, config: &ModelConfig) -> Result<AdapterShape> {
    let read = || {
        let PeftConfig { rank, alpha, dropout, rslora } = PeftConfig::read(folder)?;
        let shapes = load_shapes(&folder.join(TENSORS))?;
        let own = |(name, shape): (String, Vec<usize>)| Ok((own_name(&name)?, shape));
        let shapes: BTreeMap<String, Vec<usize>> = shapes.into_iter().map(own).collect::<Result<_>>()?;
        expect_shapes(config, rank, &shapes)?;
        let layers = shapes.keys().filter_map(|name| name.strip_suffix(DOWN)).map(str::to_string).collect();
        let scale = Adapter { rank, alpha, dropout, rslora, tensors: BTreeMap::new() }.scale();
        Ok(AdapterShape { rank, scale, layers })
    };
    read().map_err(|e: Error| e.at(folder.display()))
}

/// Returns a tensor's name without PEFT's prefix. Errors: a name without the prefix.
fn own_name(name: &str) -> Result<String> {
    let own = name.strip_prefix(PREFIX).ok_or_else(|| {
        Error::data(format!("{TENSORS}: `{name}` does not begin with `{PREFIX}`"))
            .help("save the adapter with `save_pretrained` of PEFT")
    })?;
    Ok(own.to_string())
}

/// Options in `adapter_config.json` that define the computation.
struct PeftConfig {
    rank: usize,
    alpha: f64,
    dropout: f64,
    rslora: bool,
}

impl PeftConfig {
    fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(CONFIG);
        let text = untrusted::read_text(&path, untrusted::OPTIONS)?;
        let options: Value =
            serde_json::from_str(&text).map_err(|e| Error::data(format!("{CONFIG}: not valid JSON: {e}")))?;
        refuse_unsupported(&options)?;
        let number = |key: &str, default: f64| match &options[key] {
            Value::Null => Ok(default),
            value => value.as_f64().ok_or_else(|| Error::data(format!("{CONFIG}: `{key}` is {value}, not a number"))),
        };
        let rank = options["r"]
            .as_u64()
            .filter(|rank| *rank > 0)
            .ok_or_else(|| Error::data(format!("{CONFIG}: `r` is {}, not a rank", options["r"])))?;
        Ok(Self {
            rank: rank as usize,
            alpha: number("lora_alpha", 8.0)?,
            dropout: number("lora_dropout", 0.0)?,
            rslora: options["use_rslora"] == true,
        })
    }
}

/// Keys of `adapter_config.json` that change what an adapter computes. They must be absent, null, false or empty.
const UNSUPPORTED: [&str; 17] = [
    "alora_invocation_tokens",
    "alpha_pattern",
    "arrow_config",
    "corda_config",
    "eva_config",
    "fan_in_fan_out",
    "kasa_config",
    "layer_replication",
    "lora_bias",
    "megatron_config",
    "monteclora_config",
    "rank_pattern",
    "target_parameters",
    "trainable_token_indices",
    "use_bdlora",
    "use_dora",
    "use_qalora",
];

fn refuse_unsupported(options: &Value) -> Result<()> {
    let refuse = |key: &str| {
        Err(Error::invalid(format!("{CONFIG}: `{key}` = {} is not supported", options[key]))
            .help("use a plain LoRA adapter, or merge it with PEFT and use the merged model"))
    };
    if options["peft_type"] != "LORA" {
        return refuse("peft_type");
    }
    if options["bias"].as_str().is_some_and(|bias| bias != "none") {
        return refuse("bias");
    }
    let empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if let Some(key) = UNSUPPORTED.iter().find(|key| !empty(&options[**key])) {
        return refuse(key);
    }
    // PEFT adds `classifier` and `score` for every token classifier, even if the model lacks them.
    let known = |module: &Value| module == "score" || module == "classifier";
    if options["modules_to_save"].as_array().is_some_and(|modules| !modules.iter().all(known)) {
        return refuse("modules_to_save");
    }
    Ok(())
}

/// Writes both files into an existing folder; equal adapters give equal bytes.
pub fn save(folder: &Path, config: &ModelConfig, adapter: &Adapter) -> Result<()> {
    crate::checkpoint::expect_finite(&adapter.tensors)?;
    let path = folder.join(CONFIG);
    std::fs::write(&path, format!("{:#}\n", options(config, adapter))).map_err(|e| io_error(&path, &e))?;
    let tensors = adapter.tensors.iter().map(|(name, tensor)| (format!("{PREFIX}{name}"), tensor.clone())).collect();
    save_tensors(&folder.join(TENSORS), &tensors)
}

fn options(config: &ModelConfig, adapter: &Adapter) -> Value {
    let scores = adapter.labels().is_some();
    let whole = adapter.alpha.fract() == 0.0 && adapter.alpha.abs() < 1e15;
    json!({
        "base_model_name_or_path": BASE,
        "bias": "none",
        "fan_in_fan_out": false,
        "inference_mode": true,
        "init_lora_weights": true,
        "lora_alpha": if whole { json!(adapter.alpha as i64) } else { json!(adapter.alpha) },
        "lora_dropout": adapter.dropout,
        "modules_to_save": if scores { json!(["score"]) } else { Value::Null },
        "peft_type": "LORA",
        "r": adapter.rank,
        "target_modules": target_modules(config, adapter),
        "task_type": if scores { "TOKEN_CLS" } else { "CAUSAL_LM" },
        "use_dora": false,
        "use_rslora": adapter.rslora,
    })
}

/// Returns the shortest names that match exactly the adapted layers: last parts if every layer with this suffix is
/// adapted, else whole names.
fn target_modules(config: &ModelConfig, adapter: &Adapter) -> Vec<String> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_string();
    let adapted = adapter.layers();
    let ends: BTreeSet<String> = adapted.iter().map(|name| last(name)).collect();
    let all = linear_layers(config);
    if all.iter().all(|layer| adapted.contains(layer.name.as_str()) || !ends.contains(&last(&layer.name))) {
        return ends.into_iter().collect();
    }
    adapted.into_iter().map(str::to_string).collect()
}
