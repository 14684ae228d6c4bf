//! Reads the shape of a model from its `config.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Shape of a model, as far as its `config.json` names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelArchitecture {
    /// Family, as `qwen3`.
    pub family: Option<String>,
    /// Class of transformers, as `Qwen3ForCausalLM`.
    pub class: Option<String>,
    /// Number of layers.
    pub layers: Option<u64>,
    /// Width of the residual stream.
    pub hidden_size: Option<u64>,
    /// Number of heads for queries.
    pub heads: Option<u64>,
    /// Number of heads for keys and values.
    pub kv_heads: Option<u64>,
    /// Width inside the MLP.
    pub intermediate_size: Option<u64>,
    /// Rows of the embedding, at least one per token.
    pub vocabulary_rows: Option<u64>,
    /// Longest sequence, in tokens.
    pub max_position_embeddings: Option<u64>,
    /// Whether the embedding is the output head, too.
    pub tied_embeddings: Option<bool>,
}

impl ModelArchitecture {
    /// Reads the content of a `config.json`. Of a model with several modalities, the part for text is read.
    pub fn of_config(config: &Value) -> Self {
        let text = config.get("text_config").filter(|part| part.is_object()).unwrap_or(config);
        let count = |key: &str| text[key].as_u64();
        let name = |value: &Value| value.as_str().map(ToString::to_string);
        Self {
            family: name(&config["model_type"]),
            class: name(&config["architectures"][0]),
            layers: count("num_hidden_layers"),
            hidden_size: count("hidden_size"),
            heads: count("num_attention_heads"),
            kv_heads: count("num_key_value_heads").or_else(|| count("num_attention_heads")),
            intermediate_size: count("intermediate_size"),
            vocabulary_rows: count("vocab_size"),
            max_position_embeddings: count("max_position_embeddings"),
            tied_embeddings: config["tie_word_embeddings"].as_bool().or(text["tie_word_embeddings"].as_bool()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn shapes_are_read_as_far_as_they_are_named() {
        let config = json!({
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 3, "hidden_size": 96,
            "num_attention_heads": 4, "intermediate_size": 256, "vocab_size": 300, "tie_word_embeddings": true,
        });
        let expected = ModelArchitecture {
            family: Some("llama".into()),
            class: Some("LlamaForCausalLM".into()),
            layers: Some(3),
            hidden_size: Some(96),
            heads: Some(4),
            kv_heads: Some(4),
            intermediate_size: Some(256),
            vocabulary_rows: Some(300),
            max_position_embeddings: None,
            tied_embeddings: Some(true),
        };
        assert_eq!(ModelArchitecture::of_config(&config), expected);
        assert_eq!(ModelArchitecture::of_config(&json!([1])), ModelArchitecture::default());
    }

    #[test]
    fn the_part_for_text_is_read() {
        let config = json!({
            "model_type": "gemma3", "text_config": {"num_hidden_layers": 2, "num_key_value_heads": 1}, "hidden_size": 7,
        });
        let found = ModelArchitecture::of_config(&config);
        assert_eq!((found.family.as_deref(), found.layers, found.kv_heads), (Some("gemma3"), Some(2), Some(1)));
        assert_eq!(found.hidden_size, None);
    }
}
