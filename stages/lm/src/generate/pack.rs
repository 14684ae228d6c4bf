//! Packs a model's weights in the layout of the kernels.
//!
//! Packing multiplies the scales of the architecture into the weights: the scale of the residual branches into the last
//! norm or matrix of each branch, the scale of the logits into the language head. It adds the family's offset to the
//! weights of norms.

use super::kernels::{AttentionShape, PANEL, PackedMatrix};
use super::numbers::CompactRows;
use crate::adapter::{AdapterRows, DOWN, UP, adapter_rows};
use crate::config::ModelConfig;
use crate::decoder::Weights;
use crate::families::{Activation, Rope};
use crate::ops::rotary::RotaryAngles;
use candle_core::{DType, Tensor};
use std::ops::Range;
use trainyard_core::{Error, Result};

/// A source of named weights.
pub trait WeightSource {
    /// Returns the lengths of the dimensions, outermost first, or `None` if the tensor is absent.
    fn shape(&self, name: &str) -> Option<&[usize]>;
    /// Returns the values in row order. Errors: invalid or data, if the tensor is absent or cannot be read as float32.
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

/// Linear layers that share their input, stacked, with the adapter's low-rank factors concatenated, so that B has 0
/// where an output has no share in a rank.
#[derive(Default)]
pub struct PackedLinear {
    pub base: PackedMatrix,
    /// A and scale · B.
    pub lora: Option<(PackedMatrix, PackedMatrix)>,
}

impl PackedLinear {
    /// Returns the columns of an output row, including padding.
    pub fn columns(&self) -> usize {
        self.base.columns()
    }
}

/// One decoder layer.
pub struct PackedLayer {
    /// The four norms, as named in `LayerNorms`.
    pub attention_in: Option<Vec<f32>>,
    pub attention_out: Option<Vec<f32>>,
    pub mlp_in: Option<Vec<f32>>,
    pub mlp_out: Option<Vec<f32>>,
    /// Number of tokens that a token sees, including itself; `None` = all before it.
    pub window: Option<usize>,
    /// Index of the rotation; `None` = no positions.
    rope: Option<usize>,
    /// Query, key and value rows, each padded to whole panels.
    pub qkv: PackedLinear,
    pub query_norm: Option<Vec<f32>>,
    pub key_norm: Option<Vec<f32>>,
    pub output: PackedLinear,
    /// Gate and up rows, each padded to whole panels.
    pub gate_up: PackedLinear,
    pub down: PackedLinear,
}

/// Numbers in the matrices of a layer that a core's cache may hold.
const CACHED: usize = 1 << 20;

/// An adapter's tensors and options.
pub struct LoraSource<'a> {
    pub tensors: &'a dyn WeightSource,
    pub rank: usize,
    pub scale: f64,
}

/// Outputs of the linear layers that share an input, by their names below the decoder layer.
type StackedParts = Vec<(&'static str, usize)>;

/// Returns the linear layers of a decoder layer that are packed together, with their inputs.
fn stacks(config: &ModelConfig) -> [(StackedParts, usize); 4] {
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let (queries, keys) = (config.query_width(), config.key_width());
    [
        (vec![("self_attn.q_proj", queries), ("self_attn.k_proj", keys), ("self_attn.v_proj", keys)], hidden),
        (vec![("self_attn.o_proj", hidden)], queries),
        (vec![("mlp.gate_proj", inner), ("mlp.up_proj", inner)], hidden),
        (vec![("mlp.down_proj", hidden)], inner),
    ]
}

/// Returns the scales of attention and MLP that are multiplied into their output matrices: 1 if a norm follows the
/// branch, because the scale is then multiplied into the norm.
fn matrix_scales(config: &ModelConfig) -> (f32, f32) {
    let (norms, residual) = (&config.architecture.norms, config.architecture.residual_scale as f32);
    let of = |norm: Option<&str>| if norm.is_some() { 1.0 } else { residual };
    (of(norms.attention_out), of(norms.mlp_out))
}

/// Sizes and packed weights.
pub struct PackedModel {
    pub vocabulary: usize,
    /// Tokens that are never sampled.
    pub unused: Vec<Range<u32>>,
    pub hidden: usize,
    pub intermediate: usize,
    pub positions: usize,
    pub eps: f32,
    pub activation: Activation,
    /// Shape of layer 0.
    pub shape: AttentionShape,
    /// Multiplies queries.
    pub attention_scale: f32,
    /// Multiplies rows of `embedding`.
    pub embedding_scale: f32,
    pub embedding: CompactRows,
    pub layers: Vec<PackedLayer>,
    pub norm: Vec<f32>,
    /// Language head; `None` for a scoring model.
    pub head: Option<PackedMatrix>,
    /// The scoring head and its number of outputs.
    pub score: Option<(PackedMatrix, usize)>,
    rotations: Vec<(Rope, RotaryAngles<f32>)>,
}

impl PackedModel {
    /// Checks every shape and packs the weights in the layout of the kernels. Errors: see [`super::Generator::new`].
    pub fn pack(config: &ModelConfig, weights: &dyn WeightSource) -> Result<Self> {
        let hidden = config.hidden_size;
        let (heads, kv_heads, head_dim) = (config.num_attention_heads, config.num_key_value_heads, config.head_dim);
        config.validate()?;
        let architecture = &config.architecture;
        let source = CheckedSource { weights, norm_offset: architecture.norm_offset as f32 };
        let layers = (0..config.num_hidden_layers).map(|l| source.layer(config, l)).collect::<Result<_>>()?;
        let embedding = source.matrix("model.embed_tokens.weight", config.vocab_size, hidden)?;
        let logit_scale = 1.0 / architecture.logits_scaling as f32;
        let head = if config.tie_word_embeddings && logit_scale == 1.0 {
            Some(PackedMatrix::new(hidden, &[(&embedding, None)]))
        } else if config.tie_word_embeddings {
            Some(PackedMatrix::new(hidden, &[(&scaled(embedding.clone(), logit_scale), None)]))
        } else if config.num_labels.is_some() && weights.shape("lm_head.weight").is_none() {
            None
        } else {
            Some(source.packed(hidden, &[("lm_head".to_string(), config.vocab_size)], logit_scale)?)
        };
        Ok(Self {
            vocabulary: config.vocab_size,
            unused: config.unused_tokens.clone(),
            hidden,
            intermediate: config.intermediate_size,
            positions: config.positions(),
            eps: config.rms_norm_eps as f32,
            activation: architecture.activation,
            shape: AttentionShape { layer: 0, heads, kv_heads, head_dim },
            attention_scale: match architecture.attention_scale {
                Some(scale) => scale as f32,
                None => 1.0 / (head_dim as f32).sqrt(),
            },
            embedding_scale: architecture.embedding_scale as f32,
            head,
            embedding: CompactRows::new(embedding),
            layers,
            norm: source.norm("model.norm", hidden, 1.0)?,
            score: source.score(hidden)?,
            rotations: architecture.ropes.iter().map(|rope| (rope.clone(), RotaryAngles::default())).collect(),
        })
    }
    /// Replaces the adapter, and its scoring head if it has one.
    pub fn adapt(&mut self, config: &ModelConfig, adapter: &LoraSource<'_>) -> Result<()> {
        let source = CheckedSource { weights: adapter.tensors, norm_offset: 0.0 };
        let (attention, mlp) = matrix_scales(config);
        let scales = [1.0, attention, 1.0, mlp];
        for (index, layer) in self.layers.iter_mut().enumerate() {
            let linears = [&mut layer.qkv, &mut layer.output, &mut layer.gate_up, &mut layer.down];
            for ((linear, stack), scale) in linears.into_iter().zip(stacks(config)).zip(scales) {
                let scaled = LoraSource { scale: adapter.scale * f64::from(scale), ..*adapter };
                linear.lora = source.lora(config, index, &stack, &scaled)?;
            }
        }
        if let Some(score) = source.score(self.hidden)? {
            self.score = Some(score);
        }
        Ok(())
    }
    /// Returns whether a layer's matrices are too large for a core's cache.
    pub fn exceeds_cache(&self) -> bool {
        let numbers = |layer: &PackedLayer| {
            self.hidden * (layer.qkv.columns() + layer.output.columns() + layer.gate_up.columns() / 2 * 3)
        };
        self.layers.first().is_some_and(|layer| numbers(layer) >= CACHED)
    }
    /// Computes the rotations of all positions below `length` that are missing.
    pub fn reserve(&mut self, length: usize) {
        for (rope, angles) in &mut self.rotations {
            angles.cover(length, rope, self.shape.head_dim);
        }
    }
    /// Rotates every head of a row by its position with the layer's rotation. Does nothing for a layer without
    /// positions.
    pub fn rotate(&self, layer: &PackedLayer, row: &mut [f32], position: usize) {
        if let Some(rope) = layer.rope {
            self.rotations[rope].1.rotate_row(row, self.shape.head_dim, position);
        }
    }
}

/// Named tensors with their expected shapes.
struct CheckedSource<'a> {
    weights: &'a dyn WeightSource,
    norm_offset: f32,
}

impl CheckedSource<'_> {
    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let found = self.weights.shape(name).ok_or_else(|| {
            Error::invalid(format!("the model has no tensor `{name}`"))
                .help("use the config.json and the model.safetensors of one model")
        })?;
        if found != shape {
            return Err(Error::invalid(format!("tensor `{name}` has shape {found:?}, the config requires {shape:?}")));
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
    /// Returns the weight `{name}.weight` of a linear map and its bias `{name}.bias`, or `None` for an absent bias.
    fn linear(&self, name: &str, rows: usize, columns: usize) -> Result<(Vec<f32>, Option<Vec<f32>>)> {
        Ok((self.matrix(&format!("{name}.weight"), rows, columns)?, self.optional(&format!("{name}.bias"), rows)?))
    }
    /// Returns the weight of the norm `name`, with the offset, times `scale`.
    fn norm(&self, name: &str, size: usize, scale: f32) -> Result<Vec<f32>> {
        let mut weight = self.vector(&format!("{name}.weight"), size)?;
        weight.iter_mut().for_each(|w| *w += self.norm_offset);
        Ok(scaled(weight, scale))
    }
    /// Packs adjacent linear maps, multiplied by `scale`.
    fn packed(&self, columns: usize, parts: &[(String, usize)], scale: f32) -> Result<PackedMatrix> {
        let linear = |(name, rows): &(String, usize)| {
            let (weight, bias) = self.linear(name, *rows, columns)?;
            Ok((scaled(weight, scale), bias.map(|b| scaled(b, scale))))
        };
        let parts: Vec<_> = parts.iter().map(linear).collect::<Result<_>>()?;
        let parts: Vec<_> = parts.iter().map(|(w, b)| (w.as_slice(), b.as_deref())).collect();
        Ok(PackedMatrix::new(columns, &parts))
    }
    /// Packs the factors of an adapter for stacked layers, or returns `None` if it adapts none of them.
    fn lora(
        &self,
        config: &ModelConfig,
        layer: usize,
        (parts, inputs): &(StackedParts, usize),
        adapter: &LoraSource<'_>,
    ) -> Result<Option<(PackedMatrix, PackedMatrix)>> {
        let name = |part: &str, factor: &str| format!("model.layers.{layer}.{part}{factor}");
        let rank = adapter.rank;
        let shares: Vec<AdapterRows> =
            parts.iter().map(|(part, outputs)| adapter_rows(config, part, *outputs)).collect();
        // Layers that are fused in files share their factors.
        let mut adapted: Vec<&str> = shares.iter().map(|share| share.layer).collect();
        adapted.dedup();
        adapted.retain(|fused| self.weights.shape(&name(fused, DOWN)).is_some());
        if adapted.is_empty() {
            return Ok(None);
        }
        let padded = rank.next_multiple_of(PANEL);
        let width = adapted.len() * padded;
        let up = |share: AdapterRows| {
            let mut up = vec![0.0; share.rows.len() * width];
            if let Some(place) = adapted.iter().position(|fused| *fused == share.layer) {
                let factor = self.matrix(&name(share.layer, UP), share.total_rows, rank)?;
                let rows = factor[share.rows.start * rank..share.rows.end * rank].chunks_exact(rank);
                for (row, factor) in up.chunks_exact_mut(width).zip(rows) {
                    for (x, b) in row[place * padded..place * padded + rank].iter_mut().zip(factor) {
                        *x = b * adapter.scale as f32;
                    }
                }
            }
            Ok::<_, Error>(up)
        };
        let ups: Vec<Vec<f32>> = shares.into_iter().map(up).collect::<Result<_>>()?;
        let down = |fused: &&str| self.matrix(&name(fused, DOWN), rank, *inputs);
        let downs: Vec<Vec<f32>> = adapted.iter().map(down).collect::<Result<_>>()?;
        let stack = |parts: &[Vec<f32>], k: usize| {
            PackedMatrix::new(k, &parts.iter().map(|part| (part.as_slice(), None)).collect::<Vec<_>>())
        };
        Ok(Some((stack(&downs, *inputs), stack(&ups, width))))
    }
    fn layer(&self, config: &ModelConfig, index: usize) -> Result<PackedLayer> {
        let name = |part: &str| format!("model.layers.{index}.{part}");
        let hidden = config.hidden_size;
        let (norms, kind) = (&config.architecture.norms, config.architecture.layers[index]);
        let residual = config.architecture.residual_scale as f32;
        let norm = |part: Option<&str>, scale| part.map(|p| self.norm(&name(p), hidden, scale)).transpose();
        let head_norm = |part: &str, size: fn((usize, usize)) -> usize| {
            config.qk_norm_widths().map(|widths| self.norm(&name(part), size(widths), 1.0)).transpose()
        };
        let linear = |(parts, inputs): (StackedParts, usize), scale: f32| {
            let parts: Vec<(String, usize)> = parts.into_iter().map(|(part, rows)| (name(part), rows)).collect();
            Ok::<_, Error>(PackedLinear { base: self.packed(inputs, &parts, scale)?, lora: None })
        };
        let [qkv, output, gate_up, down] = stacks(config);
        let (attention, mlp) = matrix_scales(config);
        Ok(PackedLayer {
            attention_in: norm(norms.attention_in, 1.0)?,
            attention_out: norm(norms.attention_out, residual)?,
            mlp_in: norm(norms.mlp_in, 1.0)?,
            mlp_out: norm(norms.mlp_out, residual)?,
            window: kind.window,
            rope: kind.rope,
            qkv: linear(qkv, 1.0)?,
            query_norm: head_norm("self_attn.q_norm", |w| w.0)?,
            key_norm: head_norm("self_attn.k_norm", |w| w.1)?,
            output: linear(output, attention)?,
            gate_up: linear(gate_up, 1.0)?,
            down: linear(down, mlp)?,
        })
    }
    fn score(&self, hidden: usize) -> Result<Option<(PackedMatrix, usize)>> {
        let Some(shape) = self.weights.shape("score.weight") else { return Ok(None) };
        let labels = shape.first().copied().unwrap_or(0);
        Ok(Some((self.packed(hidden, &[("score".to_string(), labels)], 1.0)?, labels)))
    }
}

fn scaled(mut values: Vec<f32>, factor: f32) -> Vec<f32> {
    if factor != 1.0 {
        values.iter_mut().for_each(|x| *x *= factor);
    }
    values
}
