//! Computes the decoder on rows, where one row is one token of one sequence at its position.
//!
//! Prompts, observations and single new tokens share one code path, so a token's numbers do not depend on its origin:
//! appending an observation gives the same bits as a prompt that contains the whole sequence.

use super::cache::KvBlocks;
use super::kernels::{AttentionScratch, Isa, attention, gelu_times, matmul, rms_norm, silu_times};
use super::pack::{PackedLayer, PackedLinear, PackedModel};
use crate::families::Activation;
use rayon::prelude::*;

/// Maximum rows computed together; limits memory, never changes results.
const CHUNK: usize = 96;

/// Tokens to compute for one sequence.
pub struct SequenceWork<'a> {
    pub tokens: &'a [u32],
    /// Tokens before this one are in the cache.
    pub cached: usize,
    pub blocks: &'a mut KvBlocks,
    /// Positions whose final hidden states are returned: ascending, all from `cached` on.
    pub requested: &'a [u32],
}

/// Buffers of one thread, kept between steps.
#[derive(Default)]
pub struct ForwardScratch {
    residual: Vec<f32>,
    normed: Vec<f32>,
    qkv: Vec<f32>,
    attended: Vec<f32>,
    /// Output of attention or MLP, where a norm follows.
    branch: Vec<f32>,
    gate_up: Vec<f32>,
    inner: Vec<f32>,
    /// Intermediate values between the two factors of an adapter.
    low: Vec<f32>,
    attention: AttentionScratch,
    /// The requested hidden states, in order.
    pub hidden: Vec<f32>,
    pub logits: Vec<f32>,
    pub probabilities: super::sampling::Buffer,
}

#[derive(Clone, Copy)]
struct TokenRow {
    work: usize,
    position: usize,
}

/// Computes keys and values of all uncached tokens and appends the requested hidden states (after the last norm) to
/// `scratch.hidden`, by work and position. With more than one thread, each product is divided over rayon's current
/// pool.
pub fn forward(
    model: &PackedModel,
    (isa, threads): (Isa, usize),
    works: &mut [SequenceWork<'_>],
    scratch: &mut ForwardScratch,
) {
    let mut rows = Vec::new();
    for (work, w) in works.iter_mut().enumerate() {
        w.blocks.reserve(w.tokens.len(), model.layers.len(), model.shape);
        rows.extend((w.cached..w.tokens.len()).map(|position| TokenRow { work, position }));
    }
    for rows in rows.chunks(CHUNK) {
        ForwardChunk { model, isa, threads, rows, works, scratch }.run();
    }
}

/// One chunk of rows.
struct ForwardChunk<'p, 'w> {
    model: &'p PackedModel,
    isa: Isa,
    threads: usize,
    rows: &'p [TokenRow],
    works: &'p mut [SequenceWork<'w>],
    scratch: &'p mut ForwardScratch,
}

impl ForwardChunk<'_, '_> {
    fn run(&mut self) {
        self.embed();
        for (index, layer) in self.model.layers.iter().enumerate() {
            self.attend(index, layer);
            self.feed_forward(layer);
        }
        self.collect();
    }
    /// Returns the columns of a residual row.
    fn width(&self) -> usize {
        self.model.hidden.next_multiple_of(super::kernels::PANEL)
    }
    fn embed(&mut self) {
        let (hidden, width) = (self.model.hidden, self.width());
        self.scratch.residual.resize(self.rows.len() * width, 0.0);
        for (row, out) in self.rows.iter().zip(self.scratch.residual.chunks_exact_mut(width)) {
            let token = self.works[row.work].tokens[row.position] as usize;
            self.model.embedding.copy(token * hidden, &mut out[..hidden]);
            if self.model.embedding_scale != 1.0 {
                out[..hidden].iter_mut().for_each(|x| *x *= self.model.embedding_scale);
            }
        }
    }
    /// Copies the residual rows, normed if there is a norm.
    fn load_normed(&mut self, weight: Option<&[f32]>) {
        let (hidden, width) = (self.model.hidden, self.width());
        self.scratch.normed.resize(self.rows.len() * hidden, 0.0);
        for (x, out) in self.scratch.residual.chunks_exact(width).zip(self.scratch.normed.chunks_exact_mut(hidden)) {
            match weight {
                Some(weight) => rms_norm(self.isa, &x[..hidden], weight, self.model.eps, out),
                None => out.copy_from_slice(&x[..hidden]),
            }
        }
    }
    /// Adds the normed branch to the residual rows.
    fn add_branch(&mut self, weight: &[f32]) {
        let (hidden, width) = (self.model.hidden, self.width());
        let s = &mut *self.scratch;
        s.normed.resize(self.rows.len() * hidden, 0.0);
        let rows = s.residual.chunks_exact_mut(width).zip(s.branch.chunks_exact(width));
        for ((residual, branch), normed) in rows.zip(s.normed.chunks_exact_mut(hidden)) {
            rms_norm(self.isa, &branch[..hidden], weight, self.model.eps, normed);
            residual.iter_mut().zip(normed).for_each(|(r, n)| *r += *n);
        }
    }
    fn attend(&mut self, index: usize, layer: &PackedLayer) {
        let model = self.model;
        let n = self.rows.len();
        self.load_normed(layer.attention_in.as_deref());
        let mut shape = model.shape;
        shape.layer = index;
        let (queries, keys) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
        let (keys_at, columns) = (queries.next_multiple_of(super::kernels::PANEL), layer.qkv.columns());
        let values_at = keys_at + keys.next_multiple_of(super::kernels::PANEL);
        let s = &mut *self.scratch;
        s.qkv.resize(n * columns, 0.0);
        let kernel = (self.isa, self.threads);
        linear(kernel, &layer.qkv, (&s.normed, model.hidden), n, false, (&mut s.low, &mut s.qkv));
        for (row, qkv) in self.rows.iter().zip(s.qkv.chunks_exact_mut(columns)) {
            head_norms(self.isa, layer.query_norm.as_deref(), model.eps, &mut qkv[..queries]);
            head_norms(self.isa, layer.key_norm.as_deref(), model.eps, &mut qkv[keys_at..keys_at + keys]);
            model.rotate(layer, &mut qkv[..queries], row.position);
            model.rotate(layer, &mut qkv[keys_at..keys_at + keys], row.position);
            qkv[..queries].iter_mut().for_each(|q| *q *= model.attention_scale);
            let blocks = &mut self.works[row.work].blocks;
            blocks.write(row.position, shape, &qkv[keys_at..keys_at + keys], &qkv[values_at..values_at + keys]);
        }
        s.attended.resize(n * queries, 0.0);
        // One task is the heads of a row that read the same keys.
        let group = shape.heads / shape.kv_heads * shape.head_dim;
        let (rows, works, qkv) = (self.rows, &*self.works, &s.qkv);
        let task = |scratch: &mut AttentionScratch, (i, out): (usize, &mut [f32])| {
            let (row, kv) = (rows[i / shape.kv_heads], i % shape.kv_heads);
            let query = &qkv[i / shape.kv_heads * columns + kv * group..][..group];
            let first = layer.window.map_or(0, |w| (row.position + 1).saturating_sub(w));
            let blocks = works[row.work].blocks.as_slice();
            attention(self.isa, (shape, kv), query, blocks, first..row.position + 1, scratch, out);
        };
        if self.threads == 1 {
            s.attended.chunks_exact_mut(group).enumerate().for_each(|item| task(&mut s.attention, item));
        } else {
            let tasks = s.attended.par_chunks_exact_mut(group).enumerate().with_min_len(n.div_ceil(4 * self.threads));
            tasks.for_each_init(AttentionScratch::default, task);
        }
        match &layer.attention_out {
            None => linear(kernel, &layer.output, (&s.attended, queries), n, true, (&mut s.low, &mut s.residual)),
            Some(weight) => {
                s.branch.resize(s.residual.len(), 0.0);
                linear(kernel, &layer.output, (&s.attended, queries), n, false, (&mut s.low, &mut s.branch));
                self.add_branch(weight);
            }
        }
    }
    fn feed_forward(&mut self, layer: &PackedLayer) {
        let n = self.rows.len();
        self.load_normed(layer.mlp_in.as_deref());
        let (inner, columns) = (self.model.intermediate, layer.gate_up.columns());
        let s = &mut *self.scratch;
        s.gate_up.resize(n * columns, 0.0);
        let kernel = (self.isa, self.threads);
        linear(kernel, &layer.gate_up, (&s.normed, self.model.hidden), n, false, (&mut s.low, &mut s.gate_up));
        s.inner.resize(n * inner, 0.0);
        let unit = |(row, out): (&[f32], &mut [f32])| {
            let (gate, up) = (&row[..inner], &row[columns / 2..columns / 2 + inner]);
            match self.model.activation {
                Activation::Silu => silu_times(self.isa, gate, up, out),
                Activation::GeluTanh => gelu_times(self.isa, gate, up, out),
            }
        };
        if self.threads == 1 {
            s.gate_up.chunks_exact(columns).zip(s.inner.chunks_exact_mut(inner)).for_each(unit);
        } else {
            let rows = s.gate_up.par_chunks_exact(columns).zip(s.inner.par_chunks_exact_mut(inner));
            rows.with_min_len(n.div_ceil(self.threads)).for_each(unit);
        }
        match &layer.mlp_out {
            None => linear(kernel, &layer.down, (&s.inner, inner), n, true, (&mut s.low, &mut s.residual)),
            Some(weight) => {
                s.branch.resize(s.residual.len(), 0.0);
                linear(kernel, &layer.down, (&s.inner, inner), n, false, (&mut s.low, &mut s.branch));
                self.add_branch(weight);
            }
        }
    }
    fn collect(&mut self) {
        let (hidden, width) = (self.model.hidden, self.width());
        for (row, x) in self.rows.iter().zip(self.scratch.residual.chunks_exact(width)) {
            if self.works[row.work].requested.binary_search(&(row.position as u32)).is_ok() {
                let start = self.scratch.hidden.len();
                self.scratch.hidden.resize(start + hidden, 0.0);
                rms_norm(self.isa, &x[..hidden], &self.model.norm, self.model.eps, &mut self.scratch.hidden[start..]);
            }
        }
    }
}

/// Computes `out = W x`, or `out += W x` with `accumulate`, plus the adapter's product. `x` is given with its row
/// width.
fn linear(
    kernel: (Isa, usize),
    weights: &PackedLinear,
    x: (&[f32], usize),
    rows: usize,
    accumulate: bool,
    (inner, out): (&mut Vec<f32>, &mut [f32]),
) {
    matmul(kernel, &weights.base, x, rows, accumulate, out);
    let Some((down, up)) = &weights.lora else { return };
    let ranks = down.columns();
    inner.resize(rows * ranks, 0.0);
    matmul(kernel, down, x, rows, false, inner);
    matmul(kernel, up, (inner, ranks), rows, true, out);
}

fn head_norms(isa: Isa, weight: Option<&[f32]>, eps: f32, row: &mut [f32]) {
    let Some(weight) = weight else { return };
    let mut normed = vec![0.0; weight.len()];
    for head in row.chunks_exact_mut(weight.len()) {
        rms_norm(isa, head, weight, eps, &mut normed);
        head.copy_from_slice(&normed);
    }
}
