//! A model's weights in the layout of the kernels.

use super::kernels::{AttentionShape, Packed};
use crate::config::ModelConfig;
use crate::decoder::Weights;
use candle_core::{DType, Tensor};
use trainyard_core::{Error, Result};

/// Named weights, whatever holds them.
pub trait WeightSource {
    /// Lengths of the dimensions, outermost first; `None` if there is no such tensor.
    fn shape(&self, name: &str) -> Option<&[usize]>;
    /// The values in row order. Errors: invalid or data, if there is no such tensor or it cannot be read as float32.
    fn values(&self, name: &str) -> Result<Vec<f32>>;
}

impl WeightSource for Weights {
    fn shape(&self, name: &str) -> Option<&[usize]> {
        self.get(name).map(Tensor::dims)
    }
    fn values(&self, name: &str) -> Result<Vec<f32>> {
        let tensor = self.get(name).ok_or_else(|| Error::invalid(format!("the model has no tensor `{name}`")))?;
        let read = |t: &Tensor| t.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>();
        read(tensor).map_err(|e| Error::data(format!("tensor `{name}` cannot be read as f32: {e}")))
    }
}

/// One decoder layer.
pub struct Layer {
    pub input_norm: Vec<f32>,
    /// Query, key and value rows, each padded to whole panels.
    pub qkv: Packed,
    pub query_norm: Option<Vec<f32>>,
    pub key_norm: Option<Vec<f32>>,
    pub output: Packed,
    pub post_norm: Vec<f32>,
    /// Gate and up rows, each padded to whole panels.
    pub gate_up: Packed,
    pub down: Packed,
}

/// Sizes and packed weights.
pub struct Model {
    pub vocabulary: usize,
    pub hidden: usize,
    pub intermediate: usize,
    pub positions: usize,
    pub eps: f32,
    /// Of layer 0.
    pub shape: AttentionShape,
    pub embedding: Vec<f32>,
    pub layers: Vec<Layer>,
    pub norm: Vec<f32>,
    /// None: a scoring model without a language head.
    pub head: Option<Packed>,
    /// The scoring head and its number of outputs.
    pub score: Option<(Packed, usize)>,
    rotary: Rotary,
}

impl Model {
    /// Checks every shape and lays the weights out for the kernels. Errors: see [`super::Generator::new`].
    pub fn pack(config: &ModelConfig, weights: &dyn WeightSource) -> Result<Self> {
        let hidden = config.hidden_size;
        let (heads, kv_heads, head_dim) = (config.num_attention_heads, config.num_key_value_heads, config.head_dim);
        config.validate()?;
        let source = Source { weights };
        let layers = (0..config.num_hidden_layers).map(|l| source.layer(config, l)).collect::<Result<_>>()?;
        let embedding = source.matrix("model.embed_tokens.weight", config.vocab_size, hidden)?;
        let head = if config.tie_word_embeddings {
            Some(Packed::new(hidden, &[(&embedding, None)]))
        } else if config.num_labels.is_some() && weights.shape("lm_head.weight").is_none() {
            None
        } else {
            Some(source.packed(hidden, &[("lm_head".to_string(), config.vocab_size)])?)
        };
        Ok(Self {
            vocabulary: config.vocab_size,
            hidden,
            intermediate: config.intermediate_size,
            positions: config.max_position_embeddings,
            eps: config.rms_norm_eps as f32,
            shape: AttentionShape { layer: 0, heads, kv_heads, head_dim },
            head,
            embedding,
            layers,
            norm: source.vector("model.norm.weight", hidden)?,
            score: source.score(hidden)?,
            rotary: Rotary::new(head_dim, config.rope_theta),
        })
    }
    /// Computes the rotation of all positions below `length`, if it is not there yet.
    pub fn reserve(&mut self, length: usize) {
        self.rotary.reserve(length);
    }
    /// Rotates the halves of every head of a row by its position, and multiplies by `scale`.
    pub fn rotate(&self, row: &mut [f32], position: usize, scale: f32) {
        self.rotary.apply(row, self.shape.head_dim, position, scale);
    }
}

/// Named tensors with their expected shapes.
struct Source<'a> {
    weights: &'a dyn WeightSource,
}

impl Source<'_> {
    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let found = self.weights.shape(name).ok_or_else(|| {
            Error::invalid(format!("the model has no tensor `{name}`"))
                .help("use the config.json and the model.safetensors of one model")
        })?;
        if found != shape {
            return Err(Error::invalid(format!("tensor `{name}` has shape {found:?}, the config says {shape:?}")));
        }
        self.weights.values(name)
    }
    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Vec<f32>> {
        self.values(name, &[rows, columns])
    }
    fn vector(&self, name: &str, size: usize) -> Result<Vec<f32>> {
        self.values(name, &[size])
    }
    fn optional(&self, name: &str, size: usize) -> Result<Option<Vec<f32>>> {
        if self.weights.shape(name).is_some() { self.vector(name, size).map(Some) } else { Ok(None) }
    }
    /// A linear map `{name}.weight` with `{name}.bias` where there is one.
    fn linear(&self, name: &str, rows: usize, columns: usize) -> Result<(Vec<f32>, Option<Vec<f32>>)> {
        Ok((self.matrix(&format!("{name}.weight"), rows, columns)?, self.optional(&format!("{name}.bias"), rows)?))
    }
    fn packed(&self, columns: usize, parts: &[(String, usize)]) -> Result<Packed> {
        let parts: Vec<_> =
            parts.iter().map(|(name, rows)| self.linear(name, *rows, columns)).collect::<Result<_>>()?;
        let parts: Vec<_> = parts.iter().map(|(w, b)| (w.as_slice(), b.as_deref())).collect();
        Ok(Packed::new(columns, &parts))
    }
    fn layer(&self, config: &ModelConfig, index: usize) -> Result<Layer> {
        let name = |part: &str| format!("model.layers.{index}.{part}");
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let queries = config.num_attention_heads * config.head_dim;
        let keys = config.num_key_value_heads * config.head_dim;
        let norm =
            |part: &str| if config.qk_norm { self.vector(&name(part), config.head_dim).map(Some) } else { Ok(None) };
        Ok(Layer {
            input_norm: self.vector(&name("input_layernorm.weight"), hidden)?,
            qkv: self.packed(
                hidden,
                &[
                    (name("self_attn.q_proj"), queries),
                    (name("self_attn.k_proj"), keys),
                    (name("self_attn.v_proj"), keys),
                ],
            )?,
            query_norm: norm("self_attn.q_norm.weight")?,
            key_norm: norm("self_attn.k_norm.weight")?,
            output: self.packed(queries, &[(name("self_attn.o_proj"), hidden)])?,
            post_norm: self.vector(&name("post_attention_layernorm.weight"), hidden)?,
            gate_up: self.packed(hidden, &[(name("mlp.gate_proj"), inner), (name("mlp.up_proj"), inner)])?,
            down: self.packed(inner, &[(name("mlp.down_proj"), hidden)])?,
        })
    }
    fn score(&self, hidden: usize) -> Result<Option<(Packed, usize)>> {
        let Some(shape) = self.weights.shape("score.weight") else { return Ok(None) };
        let labels = shape.first().copied().unwrap_or(0);
        Ok(Some((self.packed(hidden, &[("score".to_string(), labels)])?, labels)))
    }
}

/// Cosines and sines of the rotary embedding (arXiv 2104.09864), halves convention.
struct Rotary {
    frequencies: Vec<f64>,
    /// `[position][head_dim / 2]` pairs.
    table: Vec<(f32, f32)>,
}

impl Rotary {
    fn new(head_dim: usize, theta: f64) -> Self {
        let frequencies = (0..head_dim / 2).map(|i| theta.powf(-2.0 * i as f64 / head_dim as f64)).collect();
        Self { frequencies, table: Vec::new() }
    }
    fn reserve(&mut self, length: usize) {
        let half = self.frequencies.len();
        for position in self.table.len() / half..length {
            self.table.extend(self.frequencies.iter().map(|f| {
                let angle = position as f64 * f;
                (angle.cos() as f32, angle.sin() as f32)
            }));
        }
    }
    fn apply(&self, row: &mut [f32], head_dim: usize, position: usize, scale: f32) {
        let half = head_dim / 2;
        let table = &self.table[position * half..][..half];
        for head in row.chunks_exact_mut(head_dim) {
            let (low, high) = head.split_at_mut(half);
            for ((a, b), &(cos, sin)) in low.iter_mut().zip(high).zip(table) {
                let (x, y) = (*a, *b);
                *a = (x * cos - y * sin) * scale;
                *b = (y * cos + x * sin) * scale;
            }
        }
    }
}
