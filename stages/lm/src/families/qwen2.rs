//! Describes Qwen2 and Qwen2.5, which have biases on queries, keys and values but not on the output projection.

use super::architecture::{Architecture, LayerKind};
use super::family::{ConfigSizes, DEFAULTS, ModelFamily, sliding_layers, windows, write_windows};
use super::keys::Keys;
use super::llama;
use serde_json::{Map, Value, json};
use trainyard_core::Result;

pub static FAMILY: ModelFamily =
    ModelFamily { name: "qwen2", class: "Qwen2", defaults: DEFAULTS, fused: false, read, write };

fn read(keys: &Keys<'_>, sizes: &ConfigSizes) -> Result<Architecture> {
    let layers = layers(keys, sizes)?;
    Ok(Architecture { layers, attention_bias: true, output_bias: false, ..llama::read(keys, sizes)? })
}

/// Reads the layers. Qwen's files contain a window even if `use_sliding_window` is false, so a window applies only if
/// the key is true.
pub(super) fn layers(keys: &Keys<'_>, sizes: &ConfigSizes) -> Result<Vec<LayerKind>> {
    if !keys.flag_or("use_sliding_window", false)? {
        return Ok(sliding_layers(vec![None; sizes.layers]));
    }
    let first = keys.size_or("max_window_layers", 28)?;
    Ok(sliding_layers(windows(keys, sizes.layers, |i| i >= first)?))
}

pub(super) fn write(architecture: &Architecture, map: &mut Map<String, Value>) {
    if architecture.has_windows() {
        map.insert("use_sliding_window".into(), json!(true));
        write_windows(architecture, map);
    }
}
