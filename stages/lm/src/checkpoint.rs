//! Weights at rest: `config.json` and safetensors of a Hugging Face folder, and named tensors of any kind (optimizer
//! state).
//!
//! Files are written here and not by candle, so that their metadata is exactly `{"format": "pt"}`, which transformers
//! looks for, and equal weights give equal bytes. Reads one file or the shards that an index names; bf16 and f16
//! become f32. Errors name the file and the tensor.

mod fused;

use crate::config::ModelConfig;
use crate::decoder::Weights;
use crate::tensor::candle;
use candle_core::{DType, Device, Tensor};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Reads `config.json` of a model folder.
pub fn read_config(folder: &Path) -> Result<ModelConfig> {
    let path = folder.join("config.json");
    ModelConfig::from_json(&read_json(&path)?).map_err(|e| e.at(folder.display()))
}

/// Reads config and weights. Errors name a missing, misshapen or non-finite tensor; tensors that the config does not
/// ask for are ignored.
pub fn load_model(folder: &Path) -> Result<(ModelConfig, Weights)> {
    let config = read_config(folder)?;
    let mut found = Weights::new();
    for file in weight_files(folder)? {
        found.append(&mut load_tensors(&file)?);
    }
    if config.family.fused {
        fused::split(&config, &mut found)?;
    }
    let mut weights = Weights::new();
    for (name, shape) in config.parameters() {
        let tensor = found.remove(&name).ok_or_else(|| {
            Error::data(format!("{}: the tensor `{name}` of shape {shape:?} is missing", folder.display()))
                .help("use the config.json and the weights of one model")
        })?;
        if tensor.dims() != shape {
            let message =
                format!("{}: `{name}` has shape {:?}, config.json asks for {shape:?}", folder.display(), tensor.dims());
            return Err(Error::data(message).help("use the config.json and the weights of one model"));
        }
        weights.insert(name, tensor);
    }
    expect_finite(&weights).map_err(|e| e.at(folder.display()))?;
    Ok((config, weights))
}

/// Writes `config.json` and `model.safetensors`; the folder must exist. Weights that are not finite are refused.
pub fn save_model(folder: &Path, config: &ModelConfig, weights: &Weights) -> Result<()> {
    expect_finite(weights)?;
    let path = folder.join("config.json");
    let text = serde_json::to_string_pretty(&config.to_json()).map_err(|e| Error::bug(format!("config.json: {e}")))?;
    fs::write(&path, text + "\n").map_err(|e| io_error(&path, &e))?;
    let path = folder.join(SINGLE);
    if config.family.fused { save_tensors(&path, &fused::join(config, weights)?) } else { save_tensors(&path, weights) }
}

/// A weight that is not finite is an error of kind data that names the tensor and the place.
pub fn expect_finite(weights: &Weights) -> Result<()> {
    for (name, tensor) in weights {
        let bad = match tensor.dtype() {
            DType::F32 => {
                position(&tensor.flatten_all().and_then(|t| t.to_vec1::<f32>()).map_err(candle)?, |x| x.is_finite())
            }
            DType::F64 => {
                position(&tensor.flatten_all().and_then(|t| t.to_vec1::<f64>()).map_err(candle)?, |x| x.is_finite())
            }
            _ => None,
        };
        if let Some(place) = bad {
            return Err(Error::data(format!("element {place} of `{name}` is not finite"))
                .help("the training diverged: lower the learning rate or clip gradients"));
        }
    }
    Ok(())
}

fn position<T>(values: &[T], good: impl Fn(&T) -> bool) -> Option<usize> {
    values.iter().position(|x| !good(x))
}

/// Checks every weight file of a model folder for readability and finite numbers.
pub fn refuse_non_finite(folder: &Path) -> Result<()> {
    for file in weight_files(folder)? {
        expect_finite(&load_tensors(&file)?).map_err(|e| e.at(file.display()))?;
    }
    Ok(())
}

/// The weight files of a folder: the single one, or the shards of its index in name order.
fn weight_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (single, index) = (folder.join(SINGLE), folder.join(INDEX));
    if single.exists() {
        return Ok(vec![single]);
    }
    if !index.exists() {
        return Err(Error::invalid(format!("{}: there is neither `{SINGLE}` nor `{INDEX}`", folder.display()))
            .help("use a Hugging Face folder with safetensors weights"));
    }
    let value = read_json(&index)?;
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

fn read_json(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).map_err(|e| io_error(path, &e))?;
    serde_json::from_str(&text).map_err(|e| Error::data(format!("{}: not valid JSON: {e}", path.display())))
}

/// Writes tensors (f32, f64, u32) as one safetensors file with metadata `{"format": "pt"}`. Equal tensors give equal
/// bytes.
pub fn save_tensors(path: &Path, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
    let raw: Vec<(&str, Raw)> =
        tensors.iter().map(|(name, tensor)| Ok((name.as_str(), Raw::of(name, tensor)?))).collect::<Result<_>>()?;
    let metadata = HashMap::from([("format".to_string(), "pt".to_string())]);
    let failed = |e: SafeTensorError| match e {
        SafeTensorError::IoError(e) => io_error(path, &e),
        other => Error::bug(format!("{}: {other}", path.display())),
    };
    safetensors::serialize_to_file(raw, Some(metadata), path).map_err(failed)
}

/// A tensor's bytes, little-endian.
struct Raw {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Raw {
    fn of(name: &str, tensor: &Tensor) -> Result<Self> {
        let flat = tensor.flatten_all().map_err(candle)?;
        let (dtype, bytes) = match tensor.dtype() {
            DType::F32 => {
                (Dtype::F32, flat.to_vec1::<f32>().map_err(candle)?.iter().flat_map(|x| x.to_le_bytes()).collect())
            }
            DType::F64 => {
                (Dtype::F64, flat.to_vec1::<f64>().map_err(candle)?.iter().flat_map(|x| x.to_le_bytes()).collect())
            }
            DType::U32 => {
                (Dtype::U32, flat.to_vec1::<u32>().map_err(candle)?.iter().flat_map(|x| x.to_le_bytes()).collect())
            }
            other => return Err(Error::bug(format!("`{name}` is of type {other:?}, which a checkpoint cannot hold"))),
        };
        Ok(Self { dtype, shape: tensor.dims().to_vec(), bytes })
    }
}

impl safetensors::View for Raw {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Reads all tensors of a safetensors file; f16 and bf16 become f32.
pub fn load_tensors(path: &Path) -> Result<BTreeMap<String, Tensor>> {
    let bytes = fs::read(path).map_err(|e| io_error(path, &e))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|e| {
        let reason = match e {
            SafeTensorError::HeaderTooSmall
            | SafeTensorError::InvalidHeaderLength
            | SafeTensorError::MetadataIncompleteBuffer => "the file is truncated".to_string(),
            other => format!("no valid safetensors file: {other}"),
        };
        Error::data(format!("{}: {reason}", path.display())).help("fetch or write the file again")
    })?;
    file.tensors()
        .into_iter()
        .map(|(name, view)| read(&name, &view).map(|t| (name, t)).map_err(|e| e.at(path.display())))
        .collect()
}

fn read(name: &str, view: &TensorView<'_>) -> Result<Tensor> {
    let (data, shape) = (view.data(), view.shape().to_vec());
    let half = |i: usize| u16::from_le_bytes([data[2 * i], data[2 * i + 1]]);
    let halves = data.len() / 2;
    let tensor = match view.dtype() {
        Dtype::F32 => Tensor::from_vec(
            data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect::<Vec<_>>(),
            shape,
            &Device::Cpu,
        ),
        Dtype::F64 => Tensor::from_vec(
            data.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect::<Vec<_>>(),
            shape,
            &Device::Cpu,
        ),
        Dtype::U32 => Tensor::from_vec(
            data.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect::<Vec<_>>(),
            shape,
            &Device::Cpu,
        ),
        Dtype::BF16 => Tensor::from_vec(
            (0..halves).map(|i| f32::from_bits(u32::from(half(i)) << 16)).collect::<Vec<_>>(),
            shape,
            &Device::Cpu,
        ),
        Dtype::F16 => {
            Tensor::from_vec((0..halves).map(|i| half_to_f32(half(i))).collect::<Vec<_>>(), shape, &Device::Cpu)
        }
        other => {
            return Err(
                Error::data(format!("`{name}` is of type {other:?}")).help("use weights of type f32, f64, f16 or bf16")
            );
        }
    };
    tensor.map_err(candle)
}

/// IEEE 754 binary16 to binary32, exact.
fn half_to_f32(bits: u16) -> f32 {
    let (sign, exponent, fraction) =
        (if bits >> 15 == 1 { -1.0f32 } else { 1.0 }, (bits >> 10) & 31, f32::from(bits & 1023));
    match exponent {
        0 => sign * fraction * 2.0f32.powi(-24),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        e => sign * (1.0 + fraction / 1024.0) * 2.0f32.powi(i32::from(e) - 15),
    }
}

#[cfg(test)]
mod tests;
