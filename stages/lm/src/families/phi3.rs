//! Describes Phi-3, Phi-3.5 and Phi-4: Llama with fused tensors, and in the small models a rotation of a part of each
//! head.

use super::architecture::{Activation, Architecture};
use super::family::{ConfigSizes, DEFAULTS, Defaults, ModelFamily, activation, sliding_layers, windows, write_window};
use super::keys::Keys;
use super::rope::{ALL_LAYERS, Rope, RopeKeys, RopeScaling};
use serde_json::{Map, Value, json};
use trainyard_core::Result;

pub static FAMILY: ModelFamily = ModelFamily {
    name: "phi3",
    class: "Phi3",
    defaults: Defaults { rms_norm_eps: 1e-5, ..DEFAULTS },
    fused: true,
    read,
    write,
};

fn read(keys: &Keys<'_>, sizes: &ConfigSizes) -> Result<Architecture> {
    let rope = Rope::read(keys, RopeKeys { partial: true, ..ALL_LAYERS }, sizes.head_dim)?;
    Ok(Architecture {
        activation: activation(keys, "hidden_act", Activation::Silu)?,
        layers: sliding_layers(windows(keys, sizes.layers, |_| true)?),
        ..Architecture::plain(sizes.layers, rope)
    })
}

/// Writes exactly three keys into `rope_scaling`, as transformers 4 requires, and the original length as a separate
/// key.
fn write(architecture: &Architecture, map: &mut Map<String, Value>) {
    write_window(architecture, map);
    let rope = &architecture.ropes[0];
    map.insert("partial_rotary_factor".into(), json!(rope.partial));
    if let RopeScaling::Longrope { short_factor, long_factor, original, attention_factor, .. } = &rope.scaling {
        let mut scaling = json!({"type": "longrope", "short_factor": short_factor, "long_factor": long_factor});
        if let Some(factor) = attention_factor {
            scaling["attention_factor"] = json!(factor);
        }
        map.insert("rope_scaling".into(), scaling);
        map.insert("original_max_position_embeddings".into(), json!(original));
    }
}
