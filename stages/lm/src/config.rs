//! The shape of a decoder, read from and written to Hugging Face's `config.json`.
//!
//! One struct serves llama, qwen2 and qwen3, which differ only in biases and in the norm of queries and keys. Other
//! families, rotary scaling, sliding windows, activations other than SiLU and biases in the MLP are errors that name
//! the key.

use serde_json::{Map, Value, json};
use trainyard_core::{Error, Result};

/// The family: decides where biases and query/key norms stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelType {
    /// No biases and no query/key norms; `attention_bias` may add biases, one on the output projection included.
    Llama,
    /// Biases on queries, keys and values, none on the output projection.
    Qwen2,
    /// RMS norm on every query and key head; biases as in Llama.
    Qwen3,
}

impl ModelType {
    /// The value of `model_type` in `config.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }
    fn architecture(self) -> &'static str {
        match self {
            Self::Llama => "Llama",
            Self::Qwen2 => "Qwen2",
            Self::Qwen3 => "Qwen3",
        }
    }
}

/// Sizes are counts of numbers; see the model cards of the families for their meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Which family's names and rules the config is written under.
    pub model_type: ModelType,
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
    /// Divides `num_attention_heads`.
    pub num_key_value_heads: usize,
    /// Even; `hidden_size / num_attention_heads` unless the file says otherwise.
    pub head_dim: usize,
    /// Added to the mean square in every RMS norm.
    pub rms_norm_eps: f64,
    /// Base θ of the rotary angles position · θ^(-2i/head_dim).
    pub rope_theta: f64,
    /// The language head reuses the embedding matrix, so there is no `lm_head.weight`.
    pub tie_word_embeddings: bool,
    /// RMS norm of each query and key head before the rotation (Qwen3).
    pub qk_norm: bool,
    /// Biases on the query, key and value projections (Qwen2: always).
    pub attention_bias: bool,
    /// Most tokens of a sequence.
    pub max_position_embeddings: usize,
    /// Standard deviation of the initial weights.
    pub initializer_range: f64,
    /// `Some(n)`: a `…ForTokenClassification` model, whose `score.weight` has n rows and which has no `lm_head`.
    pub num_labels: Option<usize>,
}

impl ModelConfig {
    /// A llama-family shape with tied embeddings; head dimension `hidden / heads`.
    pub fn llama(
        vocab: usize,
        hidden: usize,
        intermediate: usize,
        layers: usize,
        heads: usize,
        kv_heads: usize,
    ) -> Self {
        Self {
            model_type: ModelType::Llama,
            vocab_size: vocab,
            hidden_size: hidden,
            intermediate_size: intermediate,
            num_hidden_layers: layers,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            head_dim: hidden / heads.max(1),
            rms_norm_eps: 1e-6,
            rope_theta: 10_000.0,
            tie_word_embeddings: true,
            qk_norm: false,
            attention_bias: false,
            max_position_embeddings: 2_048,
            initializer_range: 0.02,
            num_labels: None,
        }
    }

    /// Width of all query heads together.
    pub fn query_width(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }
    /// Width of all key heads together (values have the same).
    pub fn key_width(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }
    /// Llama and Qwen3 with `attention_bias` also have one on the output projection; Qwen2 never.
    pub fn output_bias(&self) -> bool {
        self.attention_bias && self.model_type != ModelType::Qwen2
    }

    /// Every parameter of the model: name and shape, in name order (the order of all sums and files).
    pub fn parameters(&self) -> Vec<(String, Vec<usize>)> {
        let (h, i, q, k) = (self.hidden_size, self.intermediate_size, self.query_width(), self.key_width());
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
            push("input_layernorm.weight", vec![h]);
            push("post_attention_layernorm.weight", vec![h]);
            for (name, rows) in [("q", q), ("k", k), ("v", k)] {
                push(&format!("self_attn.{name}_proj.weight"), vec![rows, h]);
                if self.attention_bias {
                    push(&format!("self_attn.{name}_proj.bias"), vec![rows]);
                }
            }
            push("self_attn.o_proj.weight", vec![h, q]);
            if self.output_bias() {
                push("self_attn.o_proj.bias", vec![h]);
            }
            if self.qk_norm {
                push("self_attn.q_norm.weight", vec![self.head_dim]);
                push("self_attn.k_norm.weight", vec![self.head_dim]);
            }
            push("mlp.gate_proj.weight", vec![i, h]);
            push("mlp.up_proj.weight", vec![i, h]);
            push("mlp.down_proj.weight", vec![h, i]);
        }
        list.sort();
        list
    }
    /// Number of trained numbers.
    pub fn parameter_count(&self) -> usize {
        self.parameters().iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// Checks the sizes; errors name the key.
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
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            let message = format!(
                "model config: {} attention heads cannot share {} key-value heads",
                self.num_attention_heads, self.num_key_value_heads
            );
            return Err(Error::invalid(message).help("use a `num_key_value_heads` that divides `num_attention_heads`"));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(Error::invalid(format!("model config: `head_dim` {} is odd", self.head_dim))
                .help("rotary embeddings rotate pairs: use an even number"));
        }
        if !(self.rms_norm_eps > 0.0 && self.rope_theta > 1.0 && self.initializer_range > 0.0) {
            return Err(Error::invalid(
                "model config: `rms_norm_eps` and `initializer_range` must be above 0 and `rope_theta` above 1",
            ));
        }
        Ok(())
    }

    /// Reads the content of `config.json`; missing optional keys get the family's defaults.
    pub fn from_json(value: &Value) -> Result<Self> {
        let object = value.as_object().ok_or_else(|| Error::data("config.json is not a JSON object"))?;
        let keys = Keys(object);
        let model_type = match keys.text("model_type")? {
            "llama" => ModelType::Llama,
            "qwen2" => ModelType::Qwen2,
            "qwen3" => ModelType::Qwen3,
            other => {
                return Err(Error::invalid(format!("config.json: model_type `{other}` is not supported"))
                    .help("use a model of the llama, qwen2 or qwen3 family"));
            }
        };
        keys.refuse_unsupported()?;
        let hidden_size = keys.size("hidden_size")?;
        let heads = keys.size("num_attention_heads")?;
        let classifier = keys
            .0
            .get("architectures")
            .and_then(|a| a.get(0))
            .and_then(Value::as_str)
            .is_some_and(|a| a.ends_with("ForTokenClassification"));
        let config = Self {
            model_type,
            vocab_size: keys.size("vocab_size")?,
            hidden_size,
            intermediate_size: keys.size("intermediate_size")?,
            num_hidden_layers: keys.size("num_hidden_layers")?,
            num_attention_heads: heads,
            num_key_value_heads: keys.size_or("num_key_value_heads", heads)?,
            head_dim: keys
                .size_or("head_dim", if model_type == ModelType::Qwen3 { 128 } else { hidden_size / heads.max(1) })?,
            rms_norm_eps: keys.number_or("rms_norm_eps", 1e-6)?,
            rope_theta: keys.rope_theta()?,
            tie_word_embeddings: keys.flag_or("tie_word_embeddings", false)?,
            qk_norm: model_type == ModelType::Qwen3,
            attention_bias: model_type == ModelType::Qwen2 || keys.flag_or("attention_bias", false)?,
            max_position_embeddings: keys.size_or("max_position_embeddings", 2_048)?,
            initializer_range: keys.number_or("initializer_range", 0.02)?,
            num_labels: if classifier { Some(keys.labels()?) } else { None },
        };
        config.validate()?;
        Ok(config)
    }

    /// The `config.json` that transformers reads back; keys sorted.
    pub fn to_json(&self) -> Value {
        let head = if self.num_labels.is_some() { "ForTokenClassification" } else { "ForCausalLM" };
        let mut value = json!({
            "architectures": [format!("{}{head}", self.model_type.architecture())],
            "attention_bias": self.attention_bias,
            "attention_dropout": 0.0,
            "dtype": "float32",
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden_size,
            "initializer_range": self.initializer_range,
            "intermediate_size": self.intermediate_size,
            "max_position_embeddings": self.max_position_embeddings,
            "model_type": self.model_type.name(),
            "num_attention_heads": self.num_attention_heads,
            "num_hidden_layers": self.num_hidden_layers,
            "num_key_value_heads": self.num_key_value_heads,
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": self.rope_theta,
            "tie_word_embeddings": self.tie_word_embeddings,
            "torch_dtype": "float32",
            "use_cache": true,
            "vocab_size": self.vocab_size,
        });
        if let Some(labels) = self.num_labels {
            value["id2label"] =
                (0..labels).map(|i| (i.to_string(), json!(format!("LABEL_{i}")))).collect::<Map<_, _>>().into();
            value["label2id"] = (0..labels).map(|i| (format!("LABEL_{i}"), json!(i))).collect::<Map<_, _>>().into();
        }
        value
    }
}

/// Typed access that names the key in every error.
struct Keys<'a>(&'a Map<String, Value>);

impl Keys<'_> {
    fn present(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|v| !v.is_null())
    }
    fn wrong(key: &str, what: &str, value: &Value) -> Error {
        Error::data(format!("config.json: `{key}` is {value}, not {what}"))
    }
    fn text(&self, key: &str) -> Result<&str> {
        let value = self.present(key).ok_or_else(|| Error::data(format!("config.json: `{key}` is missing")))?;
        value.as_str().ok_or_else(|| Self::wrong(key, "a text", value))
    }
    fn size(&self, key: &str) -> Result<usize> {
        let value = self.present(key).ok_or_else(|| Error::data(format!("config.json: `{key}` is missing")))?;
        value.as_u64().map(|v| v as usize).ok_or_else(|| Self::wrong(key, "a whole number", value))
    }
    fn size_or(&self, key: &str, default: usize) -> Result<usize> {
        if self.present(key).is_some() { self.size(key) } else { Ok(default) }
    }
    fn number_or(&self, key: &str, default: f64) -> Result<f64> {
        self.present(key).map_or(Ok(default), |v| v.as_f64().ok_or_else(|| Self::wrong(key, "a number", v)))
    }
    fn flag_or(&self, key: &str, default: bool) -> Result<bool> {
        self.present(key).map_or(Ok(default), |v| v.as_bool().ok_or_else(|| Self::wrong(key, "true or false", v)))
    }
    /// Older files keep it at the top, newer ones under `rope_parameters`.
    fn rope_theta(&self) -> Result<f64> {
        match self.present("rope_parameters").and_then(|p| p.get("rope_theta")) {
            Some(v) => v.as_f64().ok_or_else(|| Self::wrong("rope_parameters.rope_theta", "a number", v)),
            None => self.number_or("rope_theta", 10_000.0),
        }
    }
    fn labels(&self) -> Result<usize> {
        match self.present("id2label") {
            Some(v) => v
                .as_object()
                .map(Map::len)
                .filter(|n| *n > 0)
                .ok_or_else(|| Self::wrong("id2label", "a map with entries", v)),
            None => self.size_or("num_labels", 2),
        }
    }
    fn refuse_unsupported(&self) -> Result<()> {
        let refuse = |key: &str| {
            Err(Error::invalid(format!("config.json: `{key}` = {} is not supported", self.0[key]))
                .help("use a model without it"))
        };
        for key in ["rope_scaling", "rope_parameters"] {
            let kind = self
                .present(key)
                .map(|v| v.get("rope_type").or_else(|| v.get("type")).and_then(Value::as_str).unwrap_or("default"));
            if kind.is_some_and(|k| k != "default") {
                return refuse(key);
            }
        }
        if self.present("hidden_act").is_some_and(|v| v != "silu") {
            return refuse("hidden_act");
        }
        for key in ["mlp_bias", "use_sliding_window"] {
            if self.present(key).is_some_and(|v| v == true) {
                return refuse(key);
            }
        }
        Ok(())
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
        assert!(config.qk_norm && !config.attention_bias && config.rope_theta == 1e6);
        assert_eq!(config.parameter_count(), 596_049_920);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut config = ModelConfig::from_json(&qwen3()).unwrap();
        assert_eq!(ModelConfig::from_json(&config.to_json()).unwrap(), config);
        config.num_labels = Some(3);
        assert_eq!(ModelConfig::from_json(&config.to_json()).unwrap(), config);
        assert!(config.parameters().iter().any(|(n, s)| n == "score.weight" && s == &[3, 1024]));
        let llama = ModelConfig::llama(97, 96, 256, 3, 4, 4);
        assert_eq!(ModelConfig::from_json(&llama.to_json()).unwrap(), llama);
    }

    #[test]
    fn unsupported_and_malformed_files_are_refused_by_key() {
        let cases = [
            ("model_type", json!("mamba")),
            ("rope_scaling", json!({"rope_type": "yarn", "factor": 4.0})),
            ("hidden_act", json!("gelu")),
            ("use_sliding_window", json!(true)),
            ("hidden_size", json!("big")),
            ("hidden_size", Value::Null),
            ("num_key_value_heads", json!(5)),
            ("head_dim", json!(7)),
        ];
        for (key, bad) in cases {
            let mut file = qwen3();
            file[key] = bad;
            let message = ModelConfig::from_json(&file).unwrap_err().to_string();
            assert!(message.contains(key) || message.contains("key-value heads"), "{key}: {message}");
        }
    }
}
