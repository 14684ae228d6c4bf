//! Writes weights to several files with an index, as transformers divides them.

use super::format::SaveOptions;
use super::tensors::{Numbers, save_as};
use crate::weights::Weights;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;
use trainyard_core::Result;
use trainyard_core::error::io_error;

/// Name of a single file of weights.
pub(super) const SINGLE: &str = "model.safetensors";
/// Name of the index of several files.
pub(super) const INDEX: &str = "model.safetensors.index.json";

/// Writes all tensors into one file, or in name order into as many files as the maximum size requires. A tensor is
/// never divided.
pub(super) fn save(folder: &Path, weights: &Weights, options: &SaveOptions) -> Result<()> {
    let bytes = |name: &String| weights[name].elem_count() * options.dtype.size();
    let mut shards: Vec<Vec<&String>> = Vec::new();
    let mut room = 0;
    for name in weights.keys() {
        match shards.last_mut() {
            Some(shard) if bytes(name) <= room => shard.push(name),
            _ => {
                shards.push(vec![name]);
                room = options.shard_bytes();
            }
        }
        room = room.saturating_sub(bytes(name));
    }
    let write = |file: &str, names: &[&String]| {
        let numbers = names.iter().map(|name| ((*name).clone(), Numbers::Tensor(&weights[*name]))).collect();
        save_as(&folder.join(file), &numbers, options.dtype)
    };
    if let [all] = shards.as_slice() {
        return write(SINGLE, all);
    }
    let (count, mut map) = (shards.len(), Map::new());
    for (i, names) in shards.iter().enumerate() {
        let file = format!("model-{:05}-of-{count:05}.safetensors", i + 1);
        write(&file, names)?;
        map.extend(names.iter().map(|name| ((*name).clone(), Value::from(file.as_str()))));
    }
    let parameters: usize = weights.values().map(candle_core::Tensor::elem_count).sum();
    let size = parameters * options.dtype.size();
    let index = json!({"metadata": {"total_parameters": parameters, "total_size": size}, "weight_map": map});
    let path = folder.join(INDEX);
    fs::write(&path, format!("{index:#}\n")).map_err(|e| io_error(&path, &e))
}
