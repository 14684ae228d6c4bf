//! Describes Qwen3's dense models, which have a norm on every query and key head, and a head size independent of the
//! width.

use super::architecture::{Architecture, QkNorm};
use super::family::{ConfigSizes, DEFAULTS, Defaults, ModelFamily};
use super::keys::Keys;
use super::{llama, qwen2};
use trainyard_core::Result;

pub static FAMILY: ModelFamily = ModelFamily {
    name: "qwen3",
    class: "Qwen3",
    defaults: Defaults { head_dim: Some(128), ..DEFAULTS },
    fused: false,
    read,
    write: qwen2::write,
};

fn read(keys: &Keys<'_>, sizes: &ConfigSizes) -> Result<Architecture> {
    let layers = qwen2::layers(keys, sizes)?;
    Ok(Architecture { layers, qk_norm: QkNorm::Head, ..llama::read(keys, sizes)? })
}
