//! Describes the dense models of Granite 3 and 4: Llama with multipliers on embeddings, attention, residual branches
//! and logits.

use super::architecture::Architecture;
use super::family::{ConfigSizes, DEFAULTS, ModelFamily};
use super::keys::Keys;
use super::llama;
use serde_json::{Map, Value, json};
use trainyard_core::{Error, Result};

pub static FAMILY: ModelFamily =
    ModelFamily { name: "granite", class: "Granite", defaults: DEFAULTS, fused: false, read, write };

fn read(keys: &Keys<'_>, sizes: &ConfigSizes) -> Result<Architecture> {
    let logits_scaling = keys.number_or("logits_scaling", 1.0)?;
    if !(logits_scaling > 0.0 && logits_scaling.is_finite()) {
        return Err(Error::data(format!("config.json: `logits_scaling` is {logits_scaling}, not above 0")));
    }
    Ok(Architecture {
        embedding_scale: keys.number_or("embedding_multiplier", 1.0)?,
        attention_scale: Some(keys.number_or("attention_multiplier", 1.0)?),
        residual_scale: keys.number_or("residual_multiplier", 1.0)?,
        logits_scaling,
        ..llama::read(keys, sizes)?
    })
}

fn write(architecture: &Architecture, map: &mut Map<String, Value>) {
    map.insert("embedding_multiplier".into(), json!(architecture.embedding_scale));
    map.insert("attention_multiplier".into(), json!(architecture.attention_scale));
    map.insert("residual_multiplier".into(), json!(architecture.residual_scale));
    map.insert("logits_scaling".into(), json!(architecture.logits_scaling));
}
