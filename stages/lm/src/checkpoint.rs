//! Reads and writes weights in files: `config.json` and safetensors of a Hugging Face folder, and named tensors of any
//! kind (optimizer state).
//!
//! This module writes the files instead of candle, so that their metadata is exactly `{"format": "pt"}`, which
//! transformers requires, and equal weights give equal bytes. It reads one file or the shards that an index names, and
//! converts bf16 and f16 to f32. Errors name the file and the tensor.

mod format;
mod fused;
mod shards;
mod tensors;

pub use format::{SaveOptions, SavedType};
use shards::{INDEX, SINGLE};
pub(crate) use tensors::{Numbers, load_shapes, save_numbers};
pub use tensors::{load_tensors, save_tensors};

use crate::config::ModelConfig;
use crate::tensor::candle;
use crate::untrusted;
use crate::weights::Weights;
use candle_core::{DType, Device, Tensor};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Tensors of an adapter (`adapter::peft`).
pub const ADAPTER: &str = "adapter_model.safetensors";
/// Bias of a scoring head.
const SCORE_BIAS: &str = "score.bias";
/// Folder of an adapter's base model.
pub const BASE: &str = "base";

/// Reads the `config.json` of a model folder.
pub fn read_config(folder: &Path) -> Result<ModelConfig> {
    let json = untrusted::read_json(&folder.join("config.json"), untrusted::OPTIONS)?;
    ModelConfig::from_json(&json).map_err(|e| e.at(folder.display()))
}

/// Reads the `config.json` of a model folder and checks the headers of its weight files, if they exist, against it.
/// Reads no weights.
pub fn read_shape(folder: &Path) -> Result<ModelConfig> {
    let config = read_config(folder)?;
    if folder.join(SINGLE).exists() || folder.join(INDEX).exists() {
        expect_shapes(folder, &config)?;
    }
    Ok(config)
}

/// Reads config and weights. Errors name a missing, misshapen or non-finite tensor; tensors that the config does not
/// require are ignored.
pub fn load_model(folder: &Path) -> Result<(ModelConfig, Weights)> {
    let config = read_config(folder)?;
    let weights = load_weights(folder, &config)?;
    Ok((config, weights))
}

/// Reads the weights of a folder for a model with this config. Errors: as in [`load_model`].
pub fn load_weights(folder: &Path, config: &ModelConfig) -> Result<Weights> {
    expect_shapes(folder, config)?;
    let mut found = Weights::new();
    for file in weight_files(folder)? {
        found.append(&mut load_tensors(&file)?);
    }
    if config.family.fused {
        fused::split(config, &mut found)?;
    }
    let mut weights = Weights::new();
    for (name, shape) in config.parameters() {
        let tensor = found.remove(&name).ok_or_else(|| missing(folder, &name, &shape))?;
        weights.insert(name, tensor);
    }
    expect_finite_input(&weights).map_err(|e| e.at(folder.display()))?;
    Ok(weights)
}

/// Checks the headers of a folder's weight files against a config, without reading the weights. Errors: data, naming
/// the first tensor that is missing or has another shape.
fn expect_shapes(folder: &Path, config: &ModelConfig) -> Result<()> {
    let mut found = BTreeMap::new();
    for file in weight_files(folder)? {
        found.append(&mut load_shapes(&file)?);
    }
    // Bounds the list of parameters by the tensors that exist. Every layer has several.
    if found.len() < config.num_hidden_layers {
        let (layers, tensors) = (config.num_hidden_layers, found.len());
        let message = format!(
            "{}: config.json has {layers} layers, but the weight files have only {tensors} tensors",
            folder.display()
        );
        return Err(Error::data(message).help("use the config.json and the weights of one model"));
    }
    if config.family.fused {
        fused::split_shapes(config, &mut found);
    }
    for (name, shape) in config.parameters() {
        let dims = found.get(&name).ok_or_else(|| missing(folder, &name, &shape))?;
        if *dims != shape {
            let message = format!("{}: `{name}` has shape {dims:?}, config.json requires {shape:?}", folder.display());
            return Err(Error::data(message).help("use the config.json and the weights of one model"));
        }
    }
    Ok(())
}

fn missing(folder: &Path, name: &str, shape: &[usize]) -> Error {
    Error::data(format!("{}: the tensor `{name}` of shape {shape:?} is missing", folder.display()))
        .help("use the config.json and the weights of one model")
}

/// Writes `config.json` and `model.safetensors` into an existing folder. Weights that are not finite are rejected.
pub fn save_model(folder: &Path, config: &ModelConfig, weights: &Weights) -> Result<()> {
    save_model_as(folder, config, weights, &SaveOptions::default())
}

/// Writes the files of [`save_model`] with the number type and file sizes of the options. Errors: weights that are not
/// finite, or not when rounded.
pub fn save_model_as(folder: &Path, config: &ModelConfig, weights: &Weights, options: &SaveOptions) -> Result<()> {
    expect_finite(weights)?;
    let weights = &with_score_bias(config, weights)?;
    if options.dtype == SavedType::Bf16 {
        expect_bf16(weights)?;
    }
    let mut json = config.to_json();
    for key in ["dtype", "torch_dtype"] {
        json[key] = options.dtype.name().into();
    }
    let path = folder.join("config.json");
    let text = serde_json::to_string_pretty(&json).map_err(|e| Error::bug(format!("config.json: {e}")))?;
    fs::write(&path, text + "\n").map_err(|e| io_error(&path, &e))?;
    if config.family.fused {
        shards::save(folder, &fused::join(config, weights)?, options)
    } else {
        shards::save(folder, weights, options)
    }
}

/// Returns the weights with a `score.bias` of zeros, if they have a scoring head: transformers' head has a bias, and
/// initializes an absent one randomly.
fn with_score_bias(config: &ModelConfig, weights: &Weights) -> Result<Weights> {
    let mut weights = weights.clone();
    if let Some(labels) = config.num_labels
        && !weights.contains_key(SCORE_BIAS)
    {
        weights.insert(SCORE_BIAS.to_string(), Tensor::zeros(labels, DType::F32, &Device::Cpu).map_err(candle)?);
    }
    Ok(weights)
}

/// Checks that the weights are in the range of bfloat16. Errors: data, for a weight beyond its largest number.
fn expect_bf16(weights: &Weights) -> Result<()> {
    for (name, tensor) in weights {
        let values = tensor.flatten_all().and_then(|t| t.to_vec1::<f32>()).map_err(candle)?;
        if let Some(place) = position(&values, |x| format::bf16_bits(*x) & 0x7f80 != 0x7f80) {
            return Err(Error::data(format!("element {place} of `{name}` is beyond the range of bf16"))
                .help("save with `dtype: f32`"));
        }
    }
    Ok(())
}

/// Copies `config.json` and the weight files of a model folder into another, as links where the file system supports
/// them.
pub fn link_model(from: &Path, to: &Path) -> Result<()> {
    let config = from.join("config.json");
    let index = Some(from.join(INDEX)).filter(|index| index.exists() && !from.join(SINGLE).exists());
    for file in weight_files(from)?.into_iter().chain([config]).chain(index) {
        let target = to.join(file.file_name().unwrap_or_default());
        if fs::hard_link(&file, &target).is_err() {
            fs::copy(&file, &target).map_err(|e| io_error(&target, &e))?;
        }
    }
    Ok(())
}

/// Checks that all weights of a training are finite. Errors: data, naming the tensor and the position of a number that
/// is not finite.
pub fn expect_finite(weights: &Weights) -> Result<()> {
    weights.iter().try_for_each(|(name, tensor)| expect_finite_tensor(name, tensor))
}

/// Checks that all weights of a file are finite. Errors: as in [`expect_finite`], about the file.
pub(crate) fn expect_finite_input(weights: &Weights) -> Result<()> {
    expect_finite(weights)
        .map_err(|e| e.help("the weight files hold this number: fetch them again, or use another checkpoint"))
}

fn expect_finite_tensor(name: &str, tensor: &Tensor) -> Result<()> {
    let bad = match tensor.dtype() {
        DType::F32 => {
            position(&tensor.flatten_all().and_then(|t| t.to_vec1::<f32>()).map_err(candle)?, |x| x.is_finite())
        }
        DType::F64 => {
            position(&tensor.flatten_all().and_then(|t| t.to_vec1::<f64>()).map_err(candle)?, |x| x.is_finite())
        }
        _ => None,
    };
    match bad {
        Some(place) => Err(Error::data(format!("element {place} of `{name}` is not finite"))
            .help("the training diverged: lower the learning rate or clip gradients")),
        None => Ok(()),
    }
}

fn position<T>(values: &[T], good: impl Fn(&T) -> bool) -> Option<usize> {
    values.iter().position(|x| !good(x))
}

/// Checks every weight file of a model folder, including its adapter, for readability and finite numbers.
pub fn refuse_non_finite(folder: &Path) -> Result<()> {
    let files = if folder.join(ADAPTER).exists() {
        let mut files = weight_files(&folder.join(BASE))?;
        files.push(folder.join(ADAPTER));
        files
    } else {
        weight_files(folder)?
    };
    for file in files {
        tensors::each(&file, |name, tensor| expect_finite_tensor(&name, &tensor).map_err(|e| e.at(file.display())))?;
    }
    Ok(())
}

/// Returns the weight files of a folder: the single one, or the shards of its index in name order.
fn weight_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (single, index) = (folder.join(SINGLE), folder.join(INDEX));
    if single.exists() {
        return Ok(vec![single]);
    }
    if !index.exists() {
        return Err(Error::invalid(format!("{}: neither `{SINGLE}` nor `{INDEX}` exists", folder.display()))
            .help("use a Hugging Face folder with safetensors weights"));
    }
    let value = untrusted::read_json(&index, untrusted::INDEX)?;
    let map = value
        .get("weight_map")
        .and_then(Value::as_object)
        .ok_or_else(|| Error::data(format!("{}: `weight_map` is missing", index.display())))?;
    let names: BTreeSet<&str> = map.values().filter_map(Value::as_str).collect();
    if let Some(name) = names.iter().find(|n| n.contains('/') || n.contains('\\') || **n == "..") {
        return Err(Error::data(format!("{}: shard `{name}` is not a plain file name", index.display())));
    }
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

#[cfg(test)]
mod tests;
