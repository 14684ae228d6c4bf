//! OLMo 2: norms after attention and MLP, and over all queries and all keys together.

use super::architecture::{Architecture, LayerNorms, QkNorm};
use super::family::{DEFAULTS, Defaults, Family, Sizes};
use super::keys::Keys;
use super::llama;
use trainyard_core::Result;

pub static FAMILY: Family = Family {
    name: "olmo2",
    class: "Olmo2",
    defaults: Defaults { rms_norm_eps: 1e-5, ..DEFAULTS },
    fused: false,
    read,
    write: |_, _| {},
};

pub(super) fn read(keys: &Keys<'_>, sizes: &Sizes) -> Result<Architecture> {
    Ok(Architecture { qk_norm: QkNorm::Full, norms: LayerNorms::AFTER, ..llama::read(keys, sizes)? })
}
