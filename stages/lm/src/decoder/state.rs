//! The memory of one pass: the activations that the backward reads, and scratch, per chunk of sequences.
//!
//! A workspace returns to its decoder when the graph that holds it is dropped, so a training loop allocates its
//! activations once. Buffers only grow, and old content is overwritten before it is read.

use crate::batch::TokenBatch;
use crate::config::ModelConfig;
use crate::ops::Scalar;
use crate::ops::attention::{Heads, Scratch};
use crate::ops::rotary::Angles;
use std::ops::Range;

/// Rows of a chunk, at most, unless one sequence is longer.
const CHUNK_ROWS: usize = 256;
/// Chunks per batch to aim for, so that several threads share it evenly.
const CHUNKS: usize = 16;

/// The sizes that the kernels ask for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub hidden: usize,
    pub inner: usize,
    /// Width of the query heads, and of the key heads.
    pub query: usize,
    pub key: usize,
    pub heads: Heads,
    pub layers: usize,
    /// Groups of numbers that the query norm and the key norm take by themselves; 0 without such norms.
    pub norm_groups: (usize, usize),
    /// Whether what attention and MLP give is kept for the norm behind them.
    pub attention_out: bool,
    pub mlp_out: bool,
}

impl Sizes {
    pub fn of(config: &ModelConfig) -> Self {
        Self {
            hidden: config.hidden_size,
            inner: config.intermediate_size,
            query: config.query_width(),
            key: config.key_width(),
            heads: heads(config),
            layers: config.num_hidden_layers,
            norm_groups: config
                .qk_norm_widths()
                .map_or((0, 0), |(q, k)| (config.query_width() / q, config.key_width() / k)),
            attention_out: config.architecture.norms.attention_out.is_some(),
            mlp_out: config.architecture.norms.mlp_out.is_some(),
        }
    }
    /// Width of a row of queries, keys and values.
    pub fn qkv(self) -> usize {
        self.query + 2 * self.key
    }
}

/// The heads of a layer without a window.
fn heads(config: &ModelConfig) -> Heads {
    let heads = Heads::new(config.num_attention_heads, config.num_key_value_heads, config.head_dim);
    Heads { scale: config.architecture.attention_scale.unwrap_or(heads.scale), ..heads }
}

/// What the backward reads of one layer, row-major over the chunk's rows.
#[derive(Default)]
pub(super) struct Layer<T> {
    pub input_scale: Vec<T>,
    /// Queries and keys before their norms (only with such norms), and the norms' scales per group.
    pub raw: Vec<T>,
    pub raw_scale: Vec<T>,
    pub qkv: Vec<T>,
    pub attended: Vec<T>,
    pub log_sums: Vec<T>,
    /// What the attention gives, before the norm behind it (only with such a norm), and that norm's scales.
    pub attention_raw: Vec<T>,
    pub attention_scale: Vec<T>,
    pub middle: Vec<T>,
    pub middle_scale: Vec<T>,
    pub gate_up: Vec<T>,
    /// As for the attention, of the MLP.
    pub mlp_raw: Vec<T>,
    pub mlp_scale: Vec<T>,
}

/// Scratch of both directions; the second product of the backward (weight gradients) reads it too.
#[derive(Default)]
pub(super) struct Temporary<T> {
    pub normed: Vec<T>,
    pub normed_middle: Vec<T>,
    /// What attention or MLP adds to the residual stream, where it does not go there at once.
    pub branch: Vec<T>,
    pub inner: Vec<T>,
    pub d_inner: Vec<T>,
    pub d_gate_up: Vec<T>,
    pub d_normed: Vec<T>,
    pub d_output: Vec<T>,
    pub d_middle: Vec<T>,
    /// Gradients of what attention and MLP give; empty where those of the residual stream serve.
    pub d_attention: Vec<T>,
    pub d_mlp: Vec<T>,
    pub d_input: Vec<T>,
    pub d_attended: Vec<T>,
    pub d_qkv: Vec<T>,
    pub attention: Scratch<T>,
    pub partial: Partial<T>,
}

/// A chunk's share of the gradients of a layer's vectors.
#[derive(Default)]
pub(super) struct Partial<T> {
    pub last_norm: Vec<T>,
    pub attention_in: Vec<T>,
    pub attention_out: Vec<T>,
    pub mlp_in: Vec<T>,
    pub mlp_out: Vec<T>,
    pub query_norm: Vec<T>,
    pub key_norm: Vec<T>,
    /// Of queries, keys and values side by side.
    pub bias: Vec<T>,
    pub output_bias: Vec<T>,
}

/// Whole sequences that one thread takes through the model.
#[derive(Default)]
pub(super) struct Chunk<T> {
    /// Sequences of the batch.
    pub sequences: Range<usize>,
    /// Each sequence's rows within the chunk.
    pub ranges: Vec<Range<usize>>,
    pub rows: usize,
    /// Input of each layer, then of the last norm: `[rows, hidden]`.
    pub residual: Vec<Vec<T>>,
    pub layers: Vec<Layer<T>>,
    pub last_scale: Vec<T>,
    pub temporary: Temporary<T>,
}

/// Weights turned to `[in, out]`, as the forward products read them.
#[derive(Default)]
pub(super) struct TurnedLayer<T> {
    pub qkv: Vec<T>,
    pub output: Vec<T>,
    pub gate_up: Vec<T>,
    pub down: Vec<T>,
}

#[derive(Default)]
pub(crate) struct Workspace<T> {
    pub(super) chunks: Vec<Chunk<T>>,
    /// Chunks that the current batch uses; the others keep their memory.
    pub(super) used: usize,
    pub(super) turned: Vec<TurnedLayer<T>>,
    /// Of each rotation of the architecture.
    pub(super) angles: Vec<Angles<T>>,
}

/// The first `n` places of a buffer, which grows if it must.
pub(super) fn fit<T: Scalar>(buffer: &mut Vec<T>, n: usize) -> &mut [T] {
    if buffer.len() < n {
        *buffer = vec![T::ZERO; n];
    }
    &mut buffer[..n]
}

impl<T: Scalar> Workspace<T> {
    /// Lays out a batch. `keep` holds every layer's activations, else one layer's.
    pub(super) fn arrange(&mut self, config: &ModelConfig, batch: &TokenBatch, keep: bool) {
        let target = (batch.rows() / CHUNKS).clamp(1, CHUNK_ROWS);
        let parts = batch.chunks(target);
        self.used = parts.len();
        while self.chunks.len() < parts.len() {
            self.chunks.push(Chunk::default());
        }
        for (chunk, part) in self.chunks.iter_mut().zip(parts) {
            let start = batch.range(part.start).start;
            chunk.ranges = part.clone().map(|i| batch.range(i).start - start..batch.range(i).end - start).collect();
            chunk.rows = chunk.ranges.last().map_or(0, |r| r.end);
            chunk.sequences = part;
            chunk.cover(Sizes::of(config), keep);
        }
        let ropes = &config.architecture.ropes;
        self.angles.resize_with(ropes.len(), Angles::default);
        for (angles, rope) in self.angles.iter_mut().zip(ropes) {
            angles.cover(batch.longest(), rope, config.head_dim);
        }
    }
}

impl<T: Scalar> Chunk<T> {
    fn cover(&mut self, sizes: Sizes, keep: bool) {
        let layers = if keep { sizes.layers } else { 1 };
        self.layers.resize_with(layers.max(self.layers.len()), Layer::default);
        // At least two: without a backward they alternate.
        self.residual.resize_with((layers + 1).max(self.residual.len()), Vec::new);
        let rows = self.rows;
        for residual in &mut self.residual[..=layers] {
            fit(residual, rows * sizes.hidden);
        }
        for layer in &mut self.layers[..layers] {
            layer.cover(sizes, rows);
        }
        fit(&mut self.last_scale, rows);
        let t = &mut self.temporary;
        fit(&mut t.normed, rows * sizes.hidden);
        fit(&mut t.inner, rows * sizes.inner);
    }
}

impl<T: Scalar> Layer<T> {
    fn cover(&mut self, sizes: Sizes, rows: usize) {
        let heads = sizes.heads;
        let (query_groups, key_groups) = sizes.norm_groups;
        let raw = if query_groups > 0 { rows } else { 0 };
        let attention = if sizes.attention_out { rows } else { 0 };
        let mlp = if sizes.mlp_out { rows } else { 0 };
        for (buffer, n) in [
            (&mut self.input_scale, rows),
            (&mut self.raw, raw * (sizes.query + sizes.key)),
            (&mut self.raw_scale, raw * (query_groups + key_groups)),
            (&mut self.qkv, rows * sizes.qkv()),
            (&mut self.attended, rows * sizes.query),
            (&mut self.log_sums, rows * heads.queries),
            (&mut self.attention_raw, attention * sizes.hidden),
            (&mut self.attention_scale, attention),
            (&mut self.mlp_raw, mlp * sizes.hidden),
            (&mut self.mlp_scale, mlp),
            (&mut self.middle, rows * sizes.hidden),
            (&mut self.middle_scale, rows),
            (&mut self.gate_up, rows * 2 * sizes.inner),
        ] {
            fit(buffer, n);
        }
    }
}
