//! Holds the memory of one pass: the activations that the backward reads, and scratch, per chunk of sequences.
//!
//! A workspace returns to its decoder when the graph that holds it is dropped, so a training loop allocates its
//! activations once. Buffers only grow, and a pass overwrites old content before it reads a buffer.

use super::projection::Projection;
use crate::batch::SequenceBatch;
use crate::config::ModelConfig;
use crate::ops::KernelScalar;
use crate::ops::attention::{AttentionBuffers, Heads};
use crate::ops::rotary::RotaryAngles;
use std::ops::Range;

/// Maximum rows of a chunk, unless one sequence is longer.
const CHUNK_ROWS: usize = 256;
/// Target number of chunks per batch, so that several threads share it evenly.
const CHUNKS: usize = 16;

/// Thresholds at which a pass trades time for memory. They change no bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PassLimits {
    /// Maximum bytes of activations that a pass keeps for the backward; a larger pass keeps only each layer's input.
    pub activations: usize,
    /// Maximum numbers in the layers' matrices for which a pass transposes the matrices once; products read larger
    /// models' matrices untransposed.
    pub transposed: usize,
}

impl Default for PassLimits {
    fn default() -> Self {
        Self { activations: 3 << 29, transposed: 1 << 24 }
    }
}

/// State that a forward pass keeps in the workspace. The choice affects memory and time, but no bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ActivationPolicy {
    /// No state, since no backward follows.
    #[default]
    Nothing,
    /// The input of every layer. The backward computes the other activations again, layer by layer.
    Inputs,
    /// All activations that the backward reads.
    All,
}

impl ActivationPolicy {
    /// Returns the policy for a pass that is followed by a backward.
    pub fn for_training(config: &ModelConfig, rows: usize, number: usize, limits: PassLimits) -> Self {
        let sizes = KernelSizes::of(config);
        if sizes.layers * rows * sizes.activations() * number > limits.activations { Self::Inputs } else { Self::All }
    }
}

/// The sizes that the kernels use.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelSizes {
    pub hidden: usize,
    pub inner: usize,
    /// Width of the query heads, and of the key heads.
    pub query: usize,
    pub key: usize,
    pub heads: Heads,
    pub layers: usize,
    /// Groups of numbers that the query norm and the key norm treat separately; 0 without such norms.
    pub norm_groups: (usize, usize),
    /// Whether the outputs of attention and MLP are kept for the norm after them.
    pub attention_out: bool,
    pub mlp_out: bool,
}

impl KernelSizes {
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
    /// Returns the rows and columns of a part's weight.
    pub fn projection_shape(self, part: Projection) -> (usize, usize) {
        match part {
            Projection::Query => (self.query, self.hidden),
            Projection::Key | Projection::Value => (self.key, self.hidden),
            Projection::Output => (self.hidden, self.query),
            Projection::Gate | Projection::Up => (self.inner, self.hidden),
            Projection::Down => (self.hidden, self.inner),
        }
    }
    /// Returns the numbers per row that the backward reads of one layer.
    pub fn activations(self) -> usize {
        let raw = if self.norm_groups == (0, 0) { 0 } else { self.query + self.key };
        let after = (usize::from(self.attention_out) + usize::from(self.mlp_out)) * self.hidden;
        2 * self.hidden + self.qkv() + self.query + raw + 2 * self.inner + after
    }
    /// Returns the numbers per row of a backward's scratch: the content of [`ChunkScratch`].
    fn scratch(self) -> usize {
        6 * self.hidden + 4 * self.inner + self.query + self.qkv()
    }
    /// Returns the numbers in the matrices of all layers.
    pub fn matrices(self) -> usize {
        let of = |part: &Projection| self.projection_shape(*part).0 * self.projection_shape(*part).1;
        self.layers * Projection::ALL.iter().map(of).sum::<usize>()
    }
    /// Returns the width of a row of queries, keys and values.
    pub fn qkv(self) -> usize {
        self.query + 2 * self.key
    }
}

/// Returns the heads of a layer without a window.
fn heads(config: &ModelConfig) -> Heads {
    let heads = Heads::new(config.num_attention_heads, config.num_key_value_heads, config.head_dim);
    Heads { scale: config.architecture.attention_scale.unwrap_or(heads.scale), ..heads }
}

/// Activations of one layer that the backward reads, row-major over the chunk's rows.
#[derive(Default)]
pub(super) struct LayerActivations<T> {
    pub input_scale: Vec<T>,
    /// Queries and keys before their norms (only with such norms), and the norms' scales per group.
    pub raw: Vec<T>,
    pub raw_scale: Vec<T>,
    pub qkv: Vec<T>,
    pub attended: Vec<T>,
    pub log_sums: Vec<T>,
    /// The attention's output before the norm after it (only with such a norm), and that norm's scales.
    pub attention_raw: Vec<T>,
    pub attention_scale: Vec<T>,
    pub middle: Vec<T>,
    pub middle_scale: Vec<T>,
    pub gate_up: Vec<T>,
    /// The MLP's output before the norm after it (only with such a norm), and that norm's scales.
    pub mlp_raw: Vec<T>,
    pub mlp_scale: Vec<T>,
}

/// Scratch of both directions; the second product of the backward (weight gradients) reads it too.
#[derive(Default)]
pub(super) struct ChunkScratch<T> {
    pub normed: Vec<T>,
    pub normed_middle: Vec<T>,
    /// Output of attention or MLP, where it is not added to the residual stream directly.
    pub branch: Vec<T>,
    pub inner: Vec<T>,
    pub d_inner: Vec<T>,
    pub d_gate_up: Vec<T>,
    pub d_normed: Vec<T>,
    pub d_output: Vec<T>,
    pub d_middle: Vec<T>,
    /// Gradients of the outputs of attention and MLP; empty where those of the residual stream are used.
    pub d_attention: Vec<T>,
    pub d_mlp: Vec<T>,
    pub d_input: Vec<T>,
    pub d_attended: Vec<T>,
    pub d_qkv: Vec<T>,
    pub attention: AttentionBuffers<T>,
    pub partial: PartialGradients<T>,
    /// State of the layer's adapted parts, in the order of `Projection::ALL`.
    pub lora: [LoraRows<T>; 7],
}

/// State of an adapter for one part of a layer and a chunk's rows.
#[derive(Default)]
pub(super) struct LoraRows<T> {
    /// The part's input after dropout; unused without dropout.
    pub dropped: Vec<T>,
    /// scale · dropout(x)·Aᵀ, `[rows, rank]`.
    pub inner: Vec<T>,
    /// The gradient of dropout(x)·Aᵀ.
    pub d_inner: Vec<T>,
    /// The gradient of dropout(x).
    pub d_dropped: Vec<T>,
}

/// A chunk's share of the gradients of a layer's vectors.
#[derive(Default)]
pub(super) struct PartialGradients<T> {
    pub last_norm: Vec<T>,
    pub attention_in: Vec<T>,
    pub attention_out: Vec<T>,
    pub mlp_in: Vec<T>,
    pub mlp_out: Vec<T>,
    pub query_norm: Vec<T>,
    pub key_norm: Vec<T>,
    /// Gradients of the biases of queries, keys and values, one after the other.
    pub bias: Vec<T>,
    pub output_bias: Vec<T>,
}

impl<T> SequenceChunk<T> {
    /// Returns the index of a layer's activations.
    pub fn activation_index(keep: ActivationPolicy, layer: usize) -> usize {
        if keep == ActivationPolicy::All { layer } else { 0 }
    }
}

/// Returns the bytes of a float32 training pass over this many rows, without weights, gradients and the head: inputs
/// and activations of layers, scratch, and transposed weights.
pub(super) fn pass_bytes(config: &ModelConfig, rows: usize) -> u64 {
    let (sizes, limits) = (KernelSizes::of(config), PassLimits::default());
    let kept = match ActivationPolicy::for_training(config, rows, size_of::<f32>(), limits) {
        ActivationPolicy::All => sizes.layers,
        ActivationPolicy::Inputs | ActivationPolicy::Nothing => 1,
    };
    let inputs = (sizes.layers + 1) * sizes.hidden;
    let transposed = if sizes.matrices() <= limits.transposed { sizes.matrices() } else { 0 };
    let each = inputs + kept * (sizes.activations() - sizes.hidden) + sizes.scratch();
    ((rows * each + transposed) * size_of::<f32>()) as u64
}

/// Whole sequences that one thread takes through the model.
#[derive(Default)]
pub(super) struct SequenceChunk<T> {
    /// Sequences of the batch.
    pub sequences: Range<usize>,
    /// Each sequence's rows within the chunk.
    pub ranges: Vec<Range<usize>>,
    pub rows: usize,
    /// Input of each layer, then of the last norm: `[rows, hidden]`.
    pub residual: Vec<Vec<T>>,
    pub layers: Vec<LayerActivations<T>>,
    pub last_scale: Vec<T>,
    pub temporary: ChunkScratch<T>,
}

/// Weights transposed to `[in, out]`, as the forward products read them.
#[derive(Default)]
pub(super) struct TransposedLayer<T> {
    pub qkv: Vec<T>,
    pub output: Vec<T>,
    pub gate_up: Vec<T>,
    pub down: Vec<T>,
}

#[derive(Default)]
pub(crate) struct Workspace<T> {
    pub(super) chunks: Vec<SequenceChunk<T>>,
    /// Chunks that the current batch uses; the others keep their memory.
    pub(super) used: usize,
    /// One for each layer, or empty where products read the untransposed weights.
    pub(super) transposed: Vec<TransposedLayer<T>>,
    pub(super) keep: ActivationPolicy,
    /// Angles of each rotation of the architecture.
    pub(super) angles: Vec<RotaryAngles<T>>,
}

/// Returns the first `n` numbers of a buffer, growing it if necessary.
pub(super) fn fit<T: KernelScalar>(buffer: &mut Vec<T>, n: usize) -> &mut [T] {
    if buffer.len() < n {
        *buffer = vec![T::ZERO; n];
    }
    &mut buffer[..n]
}

impl<T: KernelScalar> Workspace<T> {
    /// Divides a batch into chunks and sizes the buffers of each chunk.
    pub(super) fn arrange(&mut self, config: &ModelConfig, batch: &SequenceBatch, keep: ActivationPolicy) {
        self.keep = keep;
        let target = (batch.rows() / CHUNKS).clamp(1, CHUNK_ROWS);
        let parts = batch.chunks(target);
        self.used = parts.len();
        while self.chunks.len() < parts.len() {
            self.chunks.push(SequenceChunk::default());
        }
        for (chunk, part) in self.chunks.iter_mut().zip(parts) {
            let start = batch.range(part.start).start;
            chunk.ranges = part.clone().map(|i| batch.range(i).start - start..batch.range(i).end - start).collect();
            chunk.rows = chunk.ranges.last().map_or(0, |r| r.end);
            chunk.sequences = part;
            chunk.cover(KernelSizes::of(config), keep);
        }
        let ropes = &config.architecture.ropes;
        self.angles.resize_with(ropes.len(), RotaryAngles::default);
        for (angles, rope) in self.angles.iter_mut().zip(ropes) {
            angles.cover(batch.longest(), rope, config.head_dim);
        }
    }
}

impl<T: KernelScalar> SequenceChunk<T> {
    fn cover(&mut self, sizes: KernelSizes, keep: ActivationPolicy) {
        let layers = if keep == ActivationPolicy::All { sizes.layers } else { 1 };
        // At least two: without a backward they alternate.
        let residuals = if keep == ActivationPolicy::Nothing { 2 } else { sizes.layers + 1 };
        self.layers.resize_with(layers.max(self.layers.len()), LayerActivations::default);
        self.residual.resize_with(residuals.max(self.residual.len()), Vec::new);
        let rows = self.rows;
        for residual in &mut self.residual[..residuals] {
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

impl<T: KernelScalar> LayerActivations<T> {
    fn cover(&mut self, sizes: KernelSizes, rows: usize) {
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
