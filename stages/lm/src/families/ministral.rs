//! Describes Ministral: Mistral with a window in the layers that `layer_types` marks.

use super::architecture::Architecture;
use super::family::{ConfigSizes, DEFAULTS, ModelFamily, sliding_layers, windows, write_windows};
use super::keys::Keys;
use super::llama;
use trainyard_core::Result;

pub static FAMILY: ModelFamily =
    ModelFamily { name: "ministral", class: "Ministral", defaults: DEFAULTS, fused: false, read, write: write_windows };

fn read(keys: &Keys<'_>, sizes: &ConfigSizes) -> Result<Architecture> {
    let layers = sliding_layers(windows(keys, sizes.layers, |_| true)?);
    Ok(Architecture { layers, attention_bias: false, output_bias: false, ..llama::read(keys, sizes)? })
}
