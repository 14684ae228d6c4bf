//! Describes Llama 1 to 3.3, SmolLM2, TinyLlama and other models of the same construction.

use super::architecture::{Activation, Architecture};
use super::family::{ConfigSizes, DEFAULTS, ModelFamily, activation};
use super::keys::Keys;
use super::rope::{ALL_LAYERS, Rope};
use serde_json::json;
use trainyard_core::Result;

pub static FAMILY: ModelFamily =
    ModelFamily { name: "llama", class: "Llama", defaults: DEFAULTS, fused: false, read, write: |_, _| {} };

/// Reads Llama's construction, which is also the base of SmolLM3, Granite and OLMo. `attention_bias` applies to all
/// four projections.
pub(super) fn read(keys: &Keys<'_>, sizes: &ConfigSizes) -> Result<Architecture> {
    keys.refuse("mlp_bias", &json!(false))?;
    let bias = keys.flag_or("attention_bias", false)?;
    Ok(Architecture {
        attention_bias: bias,
        output_bias: bias,
        activation: activation(keys, "hidden_act", Activation::Silu)?,
        ..Architecture::plain(sizes.layers, Rope::read(keys, ALL_LAYERS, sizes.head_dim)?)
    })
}
