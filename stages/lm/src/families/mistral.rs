//! Describes Mistral 7B and related models: Llama without biases, with one window for all layers if `sliding_window` is
//! set.

use super::architecture::Architecture;
use super::family::{ConfigSizes, DEFAULTS, ModelFamily, sliding_layers, windows, write_window};
use super::keys::Keys;
use super::llama;
use trainyard_core::Result;

pub static FAMILY: ModelFamily =
    ModelFamily { name: "mistral", class: "Mistral", defaults: DEFAULTS, fused: false, read, write: write_window };

fn read(keys: &Keys<'_>, sizes: &ConfigSizes) -> Result<Architecture> {
    let layers = sliding_layers(windows(keys, sizes.layers, |_| true)?);
    Ok(Architecture { layers, attention_bias: false, output_bias: false, ..llama::read(keys, sizes)? })
}
