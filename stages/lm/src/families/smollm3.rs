//! Describes SmolLM3: Llama without positions in every fourth layer.

use super::architecture::{Architecture, LayerKind};
use super::family::{ConfigSizes, DEFAULTS, Defaults, ModelFamily, windows, write_windows};
use super::keys::Keys;
use super::llama;
use super::rope::{ALL_LAYERS, Rope, RopeKeys};
use serde_json::{Map, Value, json};
use trainyard_core::Result;

pub static FAMILY: ModelFamily = ModelFamily {
    name: "smollm3",
    class: "SmolLM3",
    defaults: Defaults { tied: true, ..DEFAULTS },
    fused: false,
    read,
    write,
};

fn read(keys: &Keys<'_>, sizes: &ConfigSizes) -> Result<Architecture> {
    let turns = turns(keys, sizes.layers)?;
    let windows = match keys.flag_or("use_sliding_window", false)? {
        true => windows(keys, sizes.layers, |i| !turns[i])?,
        false => vec![None; sizes.layers],
    };
    let kind = |(turns, window): (&bool, Option<usize>)| LayerKind { window, rope: turns.then_some(0) };
    let layers = turns.iter().zip(windows).map(kind).collect();
    let rope = Rope::read(keys, RopeKeys { default_theta: 2e6, ..ALL_LAYERS }, sizes.head_dim)?;
    Ok(Architecture { layers, ropes: vec![rope], ..llama::read(keys, sizes)? })
}

/// Returns for every layer whether it rotates: 1 in `no_rope_layers` means that it does, despite the key's name.
fn turns(keys: &Keys<'_>, layers: usize) -> Result<Vec<bool>> {
    let Some(value) = keys.present("no_rope_layers") else {
        let interval = keys.size_or("no_rope_layer_interval", 4)?.max(1);
        return Ok((0..layers).map(|i| !(i + 1).is_multiple_of(interval)).collect());
    };
    let list = value.as_array().filter(|l| l.len() >= layers);
    let flags = list.and_then(|l| l.iter().take(layers).map(|v| v.as_u64().map(|v| v != 0)).collect());
    flags.ok_or_else(|| Keys::wrong("no_rope_layers", "a list of 0 and 1 with an entry for each layer", value))
}

fn write(architecture: &Architecture, map: &mut Map<String, Value>) {
    let turns: Vec<u8> = architecture.layers.iter().map(|l| u8::from(l.rope.is_some())).collect();
    map.insert("no_rope_layers".into(), json!(turns));
    map.insert("use_sliding_window".into(), json!(architecture.has_windows()));
    write_windows(architecture, map);
}
