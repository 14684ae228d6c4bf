//! Describes Gemma 3's text models: norms around attention and MLP with weights that count from 1, scaled embeddings,
//! GELU, and five of six layers with a window and a separate rotation.

use super::architecture::{Activation, Architecture, LayerKind, LayerNorms, QkNorm};
use super::family::{ConfigSizes, Defaults, ModelFamily, activation, windows, write_two_ropes, write_windows};
use super::keys::Keys;
use super::rope::{ALL_LAYERS, Rope, RopeKeys};
use serde_json::{Map, Value, json};
use trainyard_core::Result;

pub static FAMILY: ModelFamily = ModelFamily {
    name: "gemma3_text",
    class: "Gemma3",
    defaults: Defaults { head_dim: Some(256), rms_norm_eps: 1e-6, tied: true },
    fused: false,
    read,
    write,
};

const FULL: RopeKeys = RopeKeys { default_theta: 1e6, ..ALL_LAYERS };
const SLIDING: RopeKeys = RopeKeys {
    layers: "sliding_attention",
    theta: "rope_local_base_freq",
    default_theta: 1e4,
    scaled: false,
    partial: false,
};

fn read(keys: &Keys<'_>, sizes: &ConfigSizes) -> Result<Architecture> {
    for key in ["attn_logit_softcapping", "final_logit_softcapping"] {
        keys.refuse(key, &Value::Null)?;
    }
    keys.refuse("use_bidirectional_attention", &json!(false))?;
    let pattern = keys.size_or("sliding_window_pattern", 6)?.max(1);
    let windows = windows(keys, sizes.layers, |i| !(i + 1).is_multiple_of(pattern))?;
    let kind = |window: Option<usize>| LayerKind { window, rope: Some(usize::from(window.is_some())) };
    let bias = keys.flag_or("attention_bias", false)?;
    let act = if keys.present("hidden_activation").is_some() { "hidden_activation" } else { "hidden_act" };
    Ok(Architecture {
        attention_bias: bias,
        output_bias: bias,
        qk_norm: QkNorm::Head,
        norms: LayerNorms::AROUND,
        norm_offset: 1.0,
        activation: activation(keys, act, Activation::GeluTanh)?,
        embedding_scale: (sizes.hidden as f64).sqrt(),
        attention_scale: Some(keys.number_or("query_pre_attn_scalar", 256.0)?.powf(-0.5)),
        ropes: vec![Rope::read(keys, FULL, sizes.head_dim)?, Rope::read(keys, SLIDING, sizes.head_dim)?],
        layers: windows.into_iter().map(kind).collect(),
        ..Architecture::plain(sizes.layers, Rope::plain(FULL.default_theta))
    })
}

fn write(architecture: &Architecture, map: &mut Map<String, Value>) {
    write_windows(architecture, map);
    write_two_ropes(architecture, map);
    map.insert("rope_local_base_freq".into(), json!(architecture.ropes[1].theta));
    map.insert("hidden_activation".into(), json!(architecture.activation.name()));
    map.insert("attn_logit_softcapping".into(), Value::Null);
    map.insert("final_logit_softcapping".into(), Value::Null);
    let scale = architecture.attention_scale.unwrap_or(1.0);
    map.insert("query_pre_attn_scalar".into(), whole(scale.powi(-2)));
}

/// Returns a number as a JSON integer if it is integral, because transformers requires an integer for integral values.
fn whole(x: f64) -> Value {
    if (x - x.round()).abs() < 1e-6 * x { json!(x.round() as u64) } else { json!(x) }
}
