//! Tokens to hidden states.

use super::branch::{Branch, Joint};
use super::state::{Chunk, Layer, Sizes, TurnedLayer, Workspace, fit};
use super::view::{LayerView, View};
use crate::batch::TokenBatch;
use crate::config::ModelConfig;
use crate::families::{Architecture, LayerKind};
use crate::ops::attention::{self, Heads};
use crate::ops::rotary::Angles;
use crate::ops::vector::{add_bias, multiply, transpose};
use crate::ops::{Matrix, Scalar, gated, norm, product};
use rayon::prelude::*;
use std::ops::Range;

/// Runs the batch through the model and writes `[batch.rows(), hidden]` to `out`.
pub(super) fn run<T: Scalar>(
    config: &ModelConfig,
    view: &View<'_, T>,
    batch: &TokenBatch,
    workspace: &mut Workspace<T>,
    keep: bool,
    out: &mut [T],
) {
    let sizes = Sizes::of(config);
    workspace.arrange(config, batch, keep);
    turn_weights(sizes, view, &mut workspace.turned);
    let Workspace { chunks, used, turned, angles } = workspace;
    let mut tasks = Vec::with_capacity(*used);
    let mut rest = out;
    for chunk in &mut chunks[..*used] {
        let (part, tail) = rest.split_at_mut(chunk.rows * sizes.hidden);
        tasks.push((chunk, part));
        rest = tail;
    }
    let architecture = &config.architecture;
    let pass = Pass { sizes, architecture, joint: Joint::of(config), view, turned, angles, keep };
    tasks.into_par_iter().for_each(|(chunk, part)| pass.chunk(batch, chunk, part));
}

struct Pass<'a, T: Scalar> {
    sizes: Sizes,
    architecture: &'a Architecture,
    joint: Joint<T>,
    view: &'a View<'a, T>,
    turned: &'a [TurnedLayer<T>],
    angles: &'a [Angles<T>],
    keep: bool,
}

impl<T: Scalar> Pass<'_, T> {
    fn chunk(&self, batch: &TokenBatch, chunk: &mut Chunk<T>, out: &mut [T]) {
        let hidden = self.sizes.hidden;
        let tokens = batch.sequences()[chunk.sequences.clone()].iter().flatten();
        for (row, token) in chunk.residual[0].chunks_exact_mut(hidden).zip(tokens) {
            let start = *token as usize * hidden;
            row.copy_from_slice(&self.view.embeddings[start..start + hidden]);
        }
        if self.architecture.embedding_scale != 1.0 {
            multiply(&mut chunk.residual[0][..chunk.rows * hidden], T::of(self.architecture.embedding_scale));
        }
        for i in 0..self.sizes.layers {
            self.layer(i, chunk);
        }
        let last = if self.keep { self.sizes.layers } else { self.sizes.layers % 2 };
        let n = chunk.rows * hidden;
        norm::forward(
            &chunk.residual[last][..n],
            &self.view.norm,
            self.joint.epsilon,
            out,
            &mut chunk.last_scale[..chunk.rows],
        );
    }

    fn layer(&self, i: usize, chunk: &mut Chunk<T>) {
        let (sizes, rows) = (self.sizes, chunk.rows);
        let (view, turned) = (&self.view.layers[i], &self.turned[i]);
        // Without a backward, two residual buffers alternate and all layers share one layer's memory.
        let (from, to) = if self.keep { (i, i + 1) } else { (i % 2, (i + 1) % 2) };
        let [x, next] = chunk.residual.get_disjoint_mut([from, to]).expect("two different buffers");
        let (x, next) = (&x[..rows * sizes.hidden], &mut next[..rows * sizes.hidden]);
        let layer = &mut chunk.layers[if self.keep { i } else { 0 }];
        let t = &mut chunk.temporary;
        let normed = fit(&mut t.normed, rows * sizes.hidden);
        self.joint.enter(x, view.norms.attention_in.as_deref(), normed, &mut layer.input_scale[..rows]);
        self.project(view, turned, normed, rows, layer);
        let heads = self.heads(i);
        self.rotate(i, &chunk.ranges, layer);
        let attended = &mut layer.attended[..rows * sizes.query];
        for range in &chunk.ranges {
            let qkv = &layer.qkv[scaled(range, sizes.qkv())];
            let log_sums = &mut layer.log_sums[scaled(range, sizes.heads.queries)];
            attention::forward(heads, qkv, &mut t.attention, &mut attended[scaled(range, sizes.query)], log_sums);
        }
        let middle = &mut layer.middle[..rows * sizes.hidden];
        middle.copy_from_slice(x);
        let branch = Branch {
            input: Matrix::rows(attended, sizes.query),
            depth: sizes.query,
            weight: &turned.output,
            bias: view.output_bias,
            norm: view.norms.attention_out.as_deref(),
        };
        self.joint.join(branch, middle, &mut t.branch, &mut layer.attention_raw, &mut layer.attention_scale);

        self.joint.enter(middle, view.norms.mlp_in.as_deref(), normed, &mut layer.middle_scale[..rows]);
        let gate_up = &mut layer.gate_up[..rows * 2 * sizes.inner];
        product(
            (rows, 2 * sizes.inner, sizes.hidden),
            Matrix::rows(normed, sizes.hidden),
            Matrix::rows(&turned.gate_up, 2 * sizes.inner),
            gate_up,
            2 * sizes.inner,
            false,
        );
        let inner = fit(&mut t.inner, rows * sizes.inner);
        gated::forward(self.architecture.activation, gate_up, sizes.inner, inner);
        next.copy_from_slice(middle);
        let branch = Branch {
            input: Matrix::rows(inner, sizes.inner),
            depth: sizes.inner,
            weight: &turned.down,
            bias: None,
            norm: view.norms.mlp_out.as_deref(),
        };
        self.joint.join(branch, next, &mut t.branch, &mut layer.mlp_raw, &mut layer.mlp_scale);
    }

    /// The heads of a layer, with its window.
    fn heads(&self, i: usize) -> Heads {
        Heads { window: self.architecture.layers[i].window, ..self.sizes.heads }
    }

    /// Queries, keys and values: projected, biased, normed.
    fn project(
        &self,
        view: &LayerView<'_, T>,
        turned: &TurnedLayer<T>,
        normed: &[T],
        rows: usize,
        layer: &mut Layer<T>,
    ) {
        let (sizes, width) = (self.sizes, self.sizes.qkv());
        let qkv = &mut layer.qkv[..rows * width];
        product(
            (rows, width, sizes.hidden),
            Matrix::rows(normed, sizes.hidden),
            Matrix::rows(&turned.qkv, width),
            qkv,
            width,
            false,
        );
        if let Some([q, k, v]) = view.biases {
            let bias: Vec<T> = [q, k, v].concat();
            add_bias(qkv, &bias);
        }
        if let (Some(query), Some(key)) = (&view.query_norm, &view.key_norm) {
            let (both, (query_groups, key_groups)) = (sizes.query + sizes.key, sizes.norm_groups);
            let groups = query_groups + key_groups;
            let saved = layer.raw.chunks_exact_mut(both).zip(layer.raw_scale.chunks_exact_mut(groups));
            for (row, (raw, scale)) in qkv.chunks_exact_mut(width).zip(saved) {
                raw.copy_from_slice(&row[..both]);
                let (raw_q, raw_k) = raw.split_at(sizes.query);
                let (scale_q, scale_k) = scale.split_at_mut(query_groups);
                norm::forward(raw_q, query, self.joint.epsilon, &mut row[..sizes.query], scale_q);
                norm::forward(raw_k, key, self.joint.epsilon, &mut row[sizes.query..both], scale_k);
            }
        }
    }

    fn rotate(&self, i: usize, ranges: &[Range<usize>], layer: &mut Layer<T>) {
        let LayerKind { rope: Some(rope), .. } = self.architecture.layers[i] else { return };
        let (width, heads) = (self.sizes.qkv(), self.sizes.heads);
        for range in ranges {
            let rows = &mut layer.qkv[scaled(range, width)];
            self.angles[rope].turn_rows(rows, width, heads.queries + heads.keys, heads.dim, false);
        }
    }
}

/// A range of rows as a range of numbers.
pub(super) fn scaled(range: &Range<usize>, width: usize) -> Range<usize> {
    range.start * width..range.end * width
}

/// Transposes every layer's matrices to `[in, out]`, with queries, keys and values side by side, and gate and up side
/// by side.
fn turn_weights<T: Scalar>(sizes: Sizes, view: &View<'_, T>, turned: &mut Vec<TurnedLayer<T>>) {
    turned.resize_with(sizes.layers, TurnedLayer::default);
    turned.par_iter_mut().zip(&view.layers).for_each(|(turned, layer)| {
        let (h, width, inner) = (sizes.hidden, sizes.qkv(), sizes.inner);
        let qkv = fit(&mut turned.qkv, h * width);
        transpose(layer.query, h, sizes.query, h, qkv, width);
        transpose(layer.key, h, sizes.key, h, &mut qkv[sizes.query..], width);
        transpose(layer.value, h, sizes.key, h, &mut qkv[sizes.query + sizes.key..], width);
        transpose(layer.output, sizes.query, h, sizes.query, fit(&mut turned.output, h * sizes.query), h);
        let gate_up = fit(&mut turned.gate_up, h * 2 * inner);
        transpose(layer.gate, h, inner, h, gate_up, 2 * inner);
        transpose(layer.up, h, inner, h, &mut gate_up[inner..], 2 * inner);
        transpose(layer.down, inner, h, inner, fit(&mut turned.down, h * inner), h);
    });
}
