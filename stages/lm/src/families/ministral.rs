//! Ministral: Mistral whose layers have a window where `layer_types` says so.

use super::architecture::Architecture;
use super::family::{DEFAULTS, Family, Sizes, sliding_layers, windows, write_windows};
use super::keys::Keys;
use super::llama;
use trainyard_core::Result;

/// The family.
pub static FAMILY: Family =
    Family { name: "ministral", class: "Ministral", defaults: DEFAULTS, fused: false, read, write: write_windows };

fn read(keys: &Keys<'_>, sizes: &Sizes) -> Result<Architecture> {
    let layers = sliding_layers(windows(keys, sizes.layers, |_| true)?);
    Ok(Architecture { layers, attention_bias: false, output_bias: false, ..llama::read(keys, sizes)? })
}
