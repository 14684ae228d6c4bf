//! Describes OLMo 2, which has norms after attention and MLP, and over all queries and all keys together.

use super::architecture::{Architecture, LayerNorms, QkNorm};
use super::family::{ConfigSizes, DEFAULTS, Defaults, ModelFamily};
use super::keys::Keys;
use super::llama;
use trainyard_core::Result;

pub static FAMILY: ModelFamily = ModelFamily {
    name: "olmo2",
    class: "Olmo2",
    defaults: Defaults { rms_norm_eps: 1e-5, ..DEFAULTS },
    fused: false,
    read,
    write: |_, _| {},
};

pub(super) fn read(keys: &Keys<'_>, sizes: &ConfigSizes) -> Result<Architecture> {
    Ok(Architecture { qk_norm: QkNorm::Full, norms: LayerNorms::AFTER, ..llama::read(keys, sizes)? })
}
