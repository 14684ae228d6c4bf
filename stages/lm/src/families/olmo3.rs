//! Describes OLMo 3: OLMo 2 with a window on three of four layers, whose rotation has no scaling.

use super::architecture::{Architecture, LayerKind};
use super::family::{ConfigSizes, DEFAULTS, Defaults, ModelFamily, windows, write_two_ropes, write_windows};
use super::keys::Keys;
use super::olmo2;
use super::rope::{ALL_LAYERS, Rope, RopeKeys};
use trainyard_core::Result;

pub static FAMILY: ModelFamily = ModelFamily {
    name: "olmo3",
    class: "Olmo3",
    defaults: Defaults { rms_norm_eps: 1e-5, ..DEFAULTS },
    fused: false,
    read,
    write: |architecture, map| {
        write_windows(architecture, map);
        write_two_ropes(architecture, map);
    },
};

fn read(keys: &Keys<'_>, sizes: &ConfigSizes) -> Result<Architecture> {
    let full = RopeKeys { default_theta: 500_000.0, ..ALL_LAYERS };
    let sliding = RopeKeys { layers: "sliding_attention", scaled: false, ..full };
    let ropes = [full, sliding].map(|place| Rope::read(keys, place, sizes.head_dim)).into_iter();
    let windows = windows(keys, sizes.layers, |i| !(i + 1).is_multiple_of(4))?;
    let kind = |window: Option<usize>| LayerKind { window, rope: Some(usize::from(window.is_some())) };
    Ok(Architecture {
        ropes: ropes.collect::<Result<_>>()?,
        layers: windows.into_iter().map(kind).collect(),
        ..olmo2::read(keys, sizes)?
    })
}
