//! Defines model families as data: each family describes the decoder of its `config.json`.
//!
//! A family is one file here and one line in [`FAMILIES`]. Training, generation and other backends read its
//! [`Architecture`] and never branch on its name. See `docs/design/0021-model-families.md`.

mod architecture;
mod family;
mod gemma3;
mod granite;
mod keys;
mod llama;
mod ministral;
mod mistral;
mod olmo2;
mod olmo3;
mod phi3;
mod qwen2;
mod qwen3;
mod rope;
mod smollm3;
#[cfg(test)]
mod tests;
mod unsupported;

pub use architecture::{Activation, Architecture, LayerKind, LayerNorms, QkNorm};
pub use family::{ConfigSizes, Defaults, ModelFamily};
pub use keys::Keys;
pub use rope::{Rope, RopeScaling, Yarn};

use trainyard_core::{Error, Result};

/// The families of this build, sorted by name.
pub static FAMILIES: [&ModelFamily; 11] = [
    &gemma3::FAMILY,
    &granite::FAMILY,
    &llama::FAMILY,
    &ministral::FAMILY,
    &mistral::FAMILY,
    &olmo2::FAMILY,
    &olmo3::FAMILY,
    &phi3::FAMILY,
    &qwen2::FAMILY,
    &qwen3::FAMILY,
    &smollm3::FAMILY,
];

/// Returns the Llama family, the default of `model/init`.
pub fn llama() -> &'static ModelFamily {
    &llama::FAMILY
}
/// Returns the Qwen3 family, an option of `model/init`.
pub fn qwen3() -> &'static ModelFamily {
    &qwen3::FAMILY
}
/// Finds a family by `model_type`. Errors: invalid, with the reason where it is known.
pub fn find(model_type: &str) -> Result<&'static ModelFamily> {
    FAMILIES.into_iter().find(|f| f.name == model_type).ok_or_else(|| {
        let names: Vec<&str> = FAMILIES.iter().map(|f| f.name).collect();
        let reason = unsupported::reason(model_type).map_or(String::new(), |r| format!(": {r}"));
        Error::invalid(format!("config.json: model_type `{model_type}` is not supported{reason}")).help(format!(
            "use a model of one of the families {}; models of other families run in a server, where `evaluate` plays \
             with them: `endpoints: {{NAME: {{model: {{endpoint: \"http://HOST:8000\", model: NAME}}}}}}` \
             (`docs/endpoints.md`)",
            names.join(", ")
        ))
    })
}
