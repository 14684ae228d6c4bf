//! Reads and writes a model's `config.json`: its sizes, its family, and the architecture that the family reads from it.

pub(crate) mod limits;

use crate::families::{self, Architecture, ConfigSizes, Keys, ModelFamily, QkNorm, Rope, RopeScaling};
use limits::ModelSizes;
use serde_json::{Map, Value, json};
use std::ops::Range;
use trainyard_core::{Error, Result};

/// Keys of token ids, which are copied from the `config.json` that was read to the one that is written.
const TOKEN_IDS: [&str; 3] = ["bos_token_id", "eos_token_id", "pad_token_id"];

/// Sizes and construction of a model. Sizes are counts of numbers; the model cards of the families document their
/// meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Family whose names and rules the config follows.
    pub family: &'static ModelFamily,
    /// Rows of the embedding; at least the tokenizer's vocabulary.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width inside the MLP.
    pub intermediate_size: usize,
    /// Layers of attention and MLP.
    pub num_hidden_layers: usize,
    /// Query heads per layer.
    pub num_attention_heads: usize,
    /// Key-value heads per layer; divides `num_attention_heads`.
    pub num_key_value_heads: usize,
    /// Head dimension, an even number; by default of most families `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    /// Added to the mean square in every RMS norm.
    pub rms_norm_eps: f64,
    /// Whether the language head reuses the embedding matrix; the file then has no `lm_head.weight`.
    pub tie_word_embeddings: bool,
    /// Maximum tokens of a sequence in the file; see [`ModelConfig::positions`].
    pub max_position_embeddings: usize,
    /// Standard deviation of the initial weights.
    pub initializer_range: f64,
    /// `Some(n)`: a `…ForTokenClassification` model, whose `score.weight` has n rows and which has no `lm_head`.
    pub num_labels: Option<usize>,
    /// Construction of the decoder.
    pub architecture: Architecture,
    /// `bos_token_id`, `eos_token_id` and `pad_token_id` of the file, for other programs.
    pub token_ids: Map<String, Value>,
    /// Ids below `vocab_size` without a token in the tokenizer, ascending: rows that pad the matrices. They have
    /// probability 0. Known only where a tokenizer is available, and not part of `config.json`.
    pub unused_tokens: Vec<Range<u32>>,
}

impl ModelConfig {
    /// Creates a llama-family shape with tied embeddings and head dimension `hidden / heads`.
    pub fn llama(
        vocab: usize,
        hidden: usize,
        intermediate: usize,
        layers: usize,
        heads: usize,
        kv_heads: usize,
    ) -> Self {
        Self {
            family: families::llama(),
            vocab_size: vocab,
            hidden_size: hidden,
            intermediate_size: intermediate,
            num_hidden_layers: layers,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            head_dim: hidden / heads.max(1),
            rms_norm_eps: 1e-6,
            tie_word_embeddings: true,
            max_position_embeddings: 2_048,
            initializer_range: 0.02,
            num_labels: None,
            architecture: Architecture::plain(layers, Rope::plain(10_000.0)),
            token_ids: Map::new(),
            unused_tokens: Vec::new(),
        }
    }
    /// Returns the same shape in the Qwen3 family, with a norm on every query and key head.
    #[must_use]
    pub fn as_qwen3(mut self) -> Self {
        self.family = families::qwen3();
        self.architecture.qk_norm = QkNorm::Head;
        self
    }

    /// Returns the width of all query heads together.
    pub fn query_width(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }
    /// Returns the width of all key heads together, which is also the width of all value heads.
    pub fn key_width(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }
    /// Returns the numbers in the weights of the query norm and of the key norm, or `None` if the family has no such
    /// norms.
    pub fn qk_norm_widths(&self) -> Option<(usize, usize)> {
        match self.architecture.qk_norm {
            QkNorm::None => None,
            QkNorm::Head => Some((self.head_dim, self.head_dim)),
            QkNorm::Full => Some((self.query_width(), self.key_width())),
        }
    }
    /// Returns the maximum length of a sequence.
    pub fn positions(&self) -> usize {
        self.architecture.limit().unwrap_or(usize::MAX).min(self.max_position_embeddings)
    }

    /// Checks token ids. Errors: data, naming the first id that the model does not support.
    pub fn expect_tokens<'t>(&self, tokens: impl IntoIterator<Item = &'t u32>) -> Result<()> {
        let unused = |t: &u32| self.unused_tokens.iter().any(|range| range.contains(t));
        let foreign = |t: &&u32| **t as usize >= self.vocab_size || unused(t);
        let Some(token) = tokens.into_iter().find(foreign) else { return Ok(()) };
        let what = match unused(token) {
            true => "has no entry in the tokenizer: this row only pads the model's vocabulary".to_string(),
            false => format!("is outside the model's vocabulary of {}", self.vocab_size),
        };
        Err(Error::data(format!("token {token} {what}")).help("use data that was made with this model's tokenizer"))
    }

    /// Returns every parameter of the model: name and shape, in name order (the order of all sums and files).
    pub fn parameters(&self) -> Vec<(String, Vec<usize>)> {
        let (h, i, q, k) = (self.hidden_size, self.intermediate_size, self.query_width(), self.key_width());
        let architecture = &self.architecture;
        let mut list = vec![
            ("model.embed_tokens.weight".to_string(), vec![self.vocab_size, h]),
            ("model.norm.weight".to_string(), vec![h]),
        ];
        match self.num_labels {
            Some(n) => list.push(("score.weight".into(), vec![n, h])),
            None if !self.tie_word_embeddings => list.push(("lm_head.weight".into(), vec![self.vocab_size, h])),
            None => {}
        }
        for layer in 0..self.num_hidden_layers {
            let mut push = |name: &str, shape: Vec<usize>| list.push((format!("model.layers.{layer}.{name}"), shape));
            for norm in architecture.norms.names() {
                push(&format!("{norm}.weight"), vec![h]);
            }
            for (name, rows) in [("q", q), ("k", k), ("v", k)] {
                push(&format!("self_attn.{name}_proj.weight"), vec![rows, h]);
                if architecture.attention_bias {
                    push(&format!("self_attn.{name}_proj.bias"), vec![rows]);
                }
            }
            push("self_attn.o_proj.weight", vec![h, q]);
            if architecture.output_bias {
                push("self_attn.o_proj.bias", vec![h]);
            }
            if let Some((query, key)) = self.qk_norm_widths() {
                push("self_attn.q_norm.weight", vec![query]);
                push("self_attn.k_norm.weight", vec![key]);
            }
            push("mlp.gate_proj.weight", vec![i, h]);
            push("mlp.up_proj.weight", vec![i, h]);
            push("mlp.down_proj.weight", vec![h, i]);
        }
        list.sort();
        list
    }
    /// Returns the number of trained parameters.
    pub fn parameter_count(&self) -> usize {
        self.parameters().iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// Checks the sizes. Errors name the key.
    pub fn validate(&self) -> Result<()> {
        let positive = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads),
            ("head_dim", self.head_dim),
            ("max_position_embeddings", self.max_position_embeddings),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, v)| *v == 0) {
            return Err(Error::invalid(format!("model config: `{name}` is 0")).help("use a positive number"));
        }
        limits::expect_total(&ModelSizes {
            vocabulary: self.vocab_size,
            labels: self.num_labels.unwrap_or(0),
            hidden: self.hidden_size,
            inner: self.intermediate_size,
            layers: self.num_hidden_layers,
            heads: [self.num_attention_heads, self.num_key_value_heads],
            head_dim: self.head_dim,
        })?;
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            let message = format!(
                "model config: {} attention heads cannot share {} key-value heads",
                self.num_attention_heads, self.num_key_value_heads
            );
            return Err(Error::invalid(message).help("use a `num_key_value_heads` that divides `num_attention_heads`"));
        }
        if !(self.rms_norm_eps > 0.0 && self.initializer_range > 0.0) {
            return Err(Error::invalid("model config: `rms_norm_eps` and `initializer_range` must be above 0"));
        }
        let Architecture { ropes, layers, .. } = &self.architecture;
        ropes.iter().try_for_each(|rope| rope.validate(self.head_dim))?;
        if layers.len() != self.num_hidden_layers || layers.iter().filter_map(|l| l.rope).any(|r| r >= ropes.len()) {
            return Err(Error::bug("the architecture does not describe every layer"));
        }
        Ok(())
    }

    /// Reads the content of `config.json`; missing optional keys get the family's defaults.
    pub fn from_json(value: &Value) -> Result<Self> {
        let object = value.as_object().ok_or_else(|| Error::data("config.json is not a JSON object"))?;
        let keys = Keys(object);
        let family = families::find(keys.text("model_type")?)?;
        let (hidden_size, heads) = (keys.size("hidden_size")?, keys.size("num_attention_heads")?);
        let head_dim = keys.size_or("head_dim", family.defaults.head_dim.unwrap_or(hidden_size / heads.max(1)))?;
        let layers = keys.size("num_hidden_layers")?;
        let kv_heads = keys.size_or("num_key_value_heads", heads)?;
        let class = object.get("architectures").and_then(|a| a.get(0)).and_then(Value::as_str);
        let classifier = class.is_some_and(|a| a.ends_with("ForTokenClassification"));
        let (vocab_size, intermediate_size) = (keys.size("vocab_size")?, keys.size("intermediate_size")?);
        let positions = keys.size_or("max_position_embeddings", 2_048)?;
        let num_labels = if classifier { Some(keys.labels()?) } else { None };
        for (key, size) in [
            ("vocab_size", vocab_size),
            ("hidden_size", hidden_size),
            ("intermediate_size", intermediate_size),
            ("num_hidden_layers", layers),
            ("num_attention_heads", heads),
            ("num_key_value_heads", kv_heads),
            ("head_dim", head_dim),
            ("max_position_embeddings", positions),
            ("num_labels", num_labels.unwrap_or(0)),
        ] {
            limits::expect_size(key, size)?;
        }
        let config = Self {
            family,
            vocab_size,
            hidden_size,
            intermediate_size,
            num_hidden_layers: layers,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            head_dim,
            rms_norm_eps: keys.number_or("rms_norm_eps", family.defaults.rms_norm_eps)?,
            tie_word_embeddings: keys.flag_or("tie_word_embeddings", family.defaults.tied)?,
            max_position_embeddings: positions,
            initializer_range: keys.number_or("initializer_range", 0.02)?,
            num_labels,
            architecture: (family.read)(&keys, &ConfigSizes { hidden: hidden_size, layers, head_dim })?,
            token_ids: TOKEN_IDS.iter().filter_map(|k| Some((k.to_string(), object.get(*k)?.clone()))).collect(),
            unused_tokens: Vec::new(),
        };
        config.validate()?;
        Ok(config)
    }

    /// Returns the `config.json` that transformers reads back, with sorted keys.
    pub fn to_json(&self) -> Value {
        let head = if self.num_labels.is_some() { "ForTokenClassification" } else { "ForCausalLM" };
        let (architecture, rope) = (&self.architecture, &self.architecture.ropes[0]);
        let mut value = json!({
            "architectures": [format!("{}{head}", self.family.class)],
            "attention_bias": architecture.attention_bias,
            "attention_dropout": 0.0,
            "dtype": "float32",
            "head_dim": self.head_dim,
            "hidden_act": architecture.activation.name(),
            "hidden_size": self.hidden_size,
            "initializer_range": self.initializer_range,
            "intermediate_size": self.intermediate_size,
            "max_position_embeddings": self.max_position_embeddings,
            "model_type": self.family.name,
            "num_attention_heads": self.num_attention_heads,
            "num_hidden_layers": self.num_hidden_layers,
            "num_key_value_heads": self.num_key_value_heads,
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": rope.theta,
            "tie_word_embeddings": self.tie_word_embeddings,
            "torch_dtype": "float32",
            "use_cache": true,
            "vocab_size": self.vocab_size,
        });
        if let Some(map) = value.as_object_mut() {
            if rope.scaling != RopeScaling::Default {
                map.insert("rope_scaling".into(), rope.scaling.to_json().into());
            }
            if !rope.is_plain() {
                map.insert("rope_parameters".into(), rope.to_json());
            }
            (self.family.write)(architecture, map);
            map.extend(self.token_ids.clone());
        }
        if let Some(labels) = self.num_labels {
            value["id2label"] =
                (0..labels).map(|i| (i.to_string(), json!(format!("LABEL_{i}")))).collect::<Map<_, _>>().into();
            value["label2id"] = (0..labels).map(|i| (format!("LABEL_{i}"), json!(i))).collect::<Map<_, _>>().into();
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qwen3() -> Value {
        json!({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936,
            "hidden_size": 1024, "intermediate_size": 3072,
            "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1_000_000, "rope_scaling": null, "sliding_window": null, "use_sliding_window": false,
            "tie_word_embeddings": true,
            "attention_bias": false, "hidden_act": "silu", "max_position_embeddings": 40960})
    }

    #[test]
    fn a_published_shape_has_its_published_size() {
        let config = ModelConfig::from_json(&qwen3()).unwrap();
        let architecture = &config.architecture;
        assert!(architecture.qk_norm == QkNorm::Head && !architecture.attention_bias);
        assert_eq!(architecture.ropes, [Rope::plain(1e6)]);
        assert_eq!(config.parameter_count(), 596_049_920);
    }

    #[test]
    fn written_config_is_read_back() {
        let mut config = ModelConfig::from_json(&qwen3()).unwrap();
        assert_eq!(ModelConfig::from_json(&config.to_json()).unwrap(), config);
        config.num_labels = Some(3);
        assert_eq!(ModelConfig::from_json(&config.to_json()).unwrap(), config);
        assert!(config.parameters().iter().any(|(n, s)| n == "score.weight" && s == &[3, 1024]));
        let llama = ModelConfig::llama(97, 96, 256, 3, 4, 4);
        assert_eq!(ModelConfig::from_json(&llama.to_json()).unwrap(), llama);
    }

    #[test]
    fn unsupported_and_malformed_configs_are_rejected_by_key() {
        let cases = [
            ("model_type", json!("mamba")),
            ("rope_scaling", json!({"rope_type": "spiral", "factor": 4.0})),
            ("rope_scaling", json!({"rope_type": "linear", "factor": 0.5})),
            ("partial_rotary_factor", json!(0.5)),
            ("hidden_act", json!("gelu")),
            ("layer_types", json!(vec!["linear_attention"; 28])),
            ("hidden_size", json!("big")),
            ("hidden_size", Value::Null),
            ("num_key_value_heads", json!(5)),
            ("head_dim", json!(7)),
        ];
        for (key, bad) in cases {
            let mut file = qwen3();
            file["use_sliding_window"] = json!(true);
            file["sliding_window"] = json!(4096);
            file[key] = bad;
            let message = ModelConfig::from_json(&file).unwrap_err().to_string();
            let words = [key, "key-value heads", "`spiral`", "`linear`", "7 of the 7 numbers"];
            assert!(words.iter().any(|w| message.contains(w)), "{key}: {message}");
        }
    }

    #[test]
    fn unsupported_family_is_rejected_with_the_reason() {
        for (name, reason) in [("qwen3_5", "linear attention"), ("lfm2", "convolutions"), ("gemma4", "each layer")] {
            let error = ModelConfig::from_json(&json!({"model_type": name})).unwrap_err();
            assert!(error.message.contains(name) && error.message.contains(reason), "{error}");
            let help = error.help.unwrap();
            assert!(help.contains("gemma3_text, granite, llama") && help.contains("`endpoints: {NAME: "), "{help}");
        }
    }

    #[test]
    fn token_ids_of_the_file_are_kept() {
        let mut file = qwen3();
        file["bos_token_id"] = json!(151643);
        file["eos_token_id"] = json!([151645, 151643]);
        file["pad_token_id"] = Value::Null;
        let written = ModelConfig::from_json(&file).unwrap().to_json();
        assert_eq!([&written["bos_token_id"], &written["eos_token_id"]], [&json!(151643), &json!([151645, 151643])]);
        assert!(written.get("pad_token_id").is_some_and(Value::is_null));
        assert!(ModelConfig::llama(9, 4, 4, 1, 1, 1).to_json().get("pad_token_id").is_none());
    }
}
