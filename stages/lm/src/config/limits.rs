//! Limits the sizes of a model before anything is allocated for them.

use trainyard_core::{Error, Result};

/// Maximum of `num_hidden_layers`; the deepest published decoders have about 130.
const LAYERS: usize = 10_000;
/// Maximum of widths and counts of heads.
const WIDTH: usize = 1 << 24;
/// Maximum of `vocab_size`.
const VOCABULARY: usize = 1 << 28;
/// Maximum of `max_position_embeddings`.
const POSITIONS: usize = 1 << 32;
/// Maximum of all parameters together: 2^48, a petabyte of float32.
const PARAMETERS: u128 = 1 << 48;

/// Sizes whose products are the shapes of a model.
pub(crate) struct ModelSizes {
    pub vocabulary: usize,
    pub labels: usize,
    pub hidden: usize,
    pub inner: usize,
    pub layers: usize,
    /// Query heads and key-value heads.
    pub heads: [usize; 2],
    pub head_dim: usize,
}

/// Returns the maximum of a size by its key in `config.json`.
pub(crate) fn limit(key: &str) -> usize {
    match key {
        "num_hidden_layers" => LAYERS,
        "vocab_size" => VOCABULARY,
        "max_position_embeddings" => POSITIONS,
        _ => WIDTH,
    }
}

/// Checks one size of a `config.json`. Errors: data, naming the key.
pub(super) fn expect_size(key: &str, size: usize) -> Result<()> {
    let limit = limit(key);
    if size <= limit {
        return Ok(());
    }
    Err(Error::data(format!("config.json: `{key}` is {size}, more than the limit of {limit}"))
        .help("use the config.json of the model's own folder"))
}

/// Checks the number of parameters, so that every product of sizes fits an integer. Errors: data.
pub(crate) fn expect_total(sizes: &ModelSizes) -> Result<()> {
    let [hidden, inner, head_dim] = [sizes.hidden, sizes.inner, sizes.head_dim].map(|n| n as u128);
    let heads = (sizes.heads[0] as u128 + sizes.heads[1] as u128).saturating_mul(2);
    // Matrices of attention and MLP. Norms and biases are small in comparison.
    let rows = heads.saturating_mul(head_dim).saturating_add(inner.saturating_mul(3));
    let layers = rows.saturating_mul(hidden).saturating_mul(sizes.layers as u128);
    let vocabulary = sizes.vocabulary as u128 + sizes.labels as u128;
    let total = vocabulary.saturating_mul(hidden).saturating_add(layers);
    if total <= PARAMETERS {
        return Ok(());
    }
    Err(Error::data(format!("model config: its sizes make more than {PARAMETERS} parameters"))
        .help("use the config.json of the model's own folder"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ModelConfig;
    use serde_json::{Value, json};

    fn config(key: &str, value: Value) -> Result<ModelConfig> {
        let mut file = ModelConfig::llama(97, 96, 256, 3, 4, 4).to_json();
        file[key] = value;
        ModelConfig::from_json(&file)
    }

    /// Returns the message of a config in which `key` has this value.
    #[track_caller]
    fn message(key: &str, value: Value) -> String {
        let error = config(key, value).unwrap_err();
        assert!(error.help.is_some(), "{error}");
        error.message
    }

    #[test]
    fn sizes_beyond_every_model_are_refused_before_anything_is_allocated() {
        for (key, size) in [
            ("num_hidden_layers", 1_u64 << 40),
            ("num_hidden_layers", 1_000_000),
            ("vocab_size", 1 << 62),
            ("hidden_size", 1 << 62),
            ("intermediate_size", 1 << 62),
            ("num_attention_heads", 1 << 62),
            ("num_key_value_heads", (1 << 63) - 1),
            ("head_dim", 1 << 62),
            ("max_position_embeddings", 1 << 60),
        ] {
            let message = message(key, json!(size));
            assert!(message.contains(key) && message.contains(&size.to_string()), "{message}");
        }
        assert!(config("max_position_embeddings", json!(10_485_760)).is_ok());
    }

    #[test]
    fn products_are_checked() {
        let mut file = ModelConfig::llama(97, 96, 256, 3, 4, 4).to_json();
        for key in ["vocab_size", "hidden_size", "intermediate_size", "head_dim"] {
            file[key] = json!(1 << 24);
        }
        let error = ModelConfig::from_json(&file).unwrap_err();
        assert!(error.message.contains("parameters"), "{error}");
        let mut own = ModelConfig::llama(97, 96, 256, 3, 4, 4);
        own.hidden_size = usize::MAX;
        own.vocab_size = usize::MAX;
        assert!(own.validate().unwrap_err().message.contains("parameters"));
    }
}
