//! Propagates the gradient of the hidden states to all parameters below the head.
//!
//! A layer has two phases. In the first, every chunk takes the gradient through the layer independently. In the second,
//! the weight gradients are computed tile by tile, and each tile sums over the chunks in order. No two threads add to
//! one number, so every sum has the order of the batch.

use super::branch::{BranchConfig, OutNorm, residual_gradient, zeroed};
use super::forward::{ForwardPass, scaled};
use super::gradients::{LayerGradients, embeddings, sum};
use super::linear::{ChunkContext, Dropout};
use super::matrices;
use super::projection::Projection;
use super::state::{ActivationPolicy, KernelSizes, PartialGradients, SequenceChunk, Workspace, fit};
use super::view::{LayerView, WeightsView};
use crate::batch::SequenceBatch;
use crate::config::ModelConfig;
use crate::families::{Architecture, LayerKind};
use crate::ops::attention::{self, Heads};
use crate::ops::rotary::RotaryAngles;
use crate::ops::vector::{add_columns, multiply};
use crate::ops::{KernelScalar, MatrixView, gated, norm};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const NORM: &str = "model.norm.weight";
const EMBEDDINGS: &str = "model.embed_tokens.weight";

/// Computes the gradients of the trained parameters, by name. `d_out` is `[batch.rows(), hidden]`; the workspace
/// contains the forward pass of the same batch, with the same dropout.
pub(super) fn run<T: KernelScalar>(
    config: &ModelConfig,
    view: &WeightsView<'_, T>,
    batch: &SequenceBatch,
    workspace: &mut Workspace<T>,
    (learned, dropout): (&BTreeSet<String>, Option<&Dropout>),
    d_out: &[T],
) -> BTreeMap<String, Vec<T>> {
    let sizes = KernelSizes::of(config);
    let Workspace { chunks, used, angles, transposed, keep } = workspace;
    let keep = *keep;
    let again = ForwardPass::new(config, view, (transposed, angles), keep, dropout);
    let chunks = &mut chunks[..*used];
    let (joint, architecture) = (BranchConfig::of(config), &config.architecture);
    let mut gradients = BTreeMap::new();

    let starts: Vec<usize> = chunks.iter().map(|c| batch.range(c.sequences.start).start * sizes.hidden).collect();
    chunks.par_iter_mut().zip(starts).for_each(|(chunk, start)| last_norm(sizes, view, chunk, &d_out[start..]));
    if learned.contains(NORM) {
        gradients.insert(NORM.to_string(), sum(chunks, sizes.hidden, |p| &p.last_norm));
    }

    for i in (0..sizes.layers).rev() {
        let view = &view.layers[i];
        let pass = LayerPass { i, sizes, branch_config: joint, architecture, view, angles, dropout, keep };
        chunks.par_iter_mut().for_each(|chunk| {
            if keep == ActivationPolicy::Inputs {
                again.activations(i, chunk);
            }
            pass.chunk(chunk);
        });
        let norms = &architecture.norms;
        let (dropout, kept) = (dropout.is_some(), pass.activation_index());
        let of_layer = LayerGradients { layer: i, sizes, norms, view, learned, dropout, activation_index: kept };
        of_layer.vectors(chunks, &mut gradients);
        matrices::gradients(&of_layer, chunks, &mut gradients);
        for chunk in chunks.iter_mut() {
            std::mem::swap(&mut chunk.temporary.d_output, &mut chunk.temporary.d_input);
        }
    }
    if learned.contains(EMBEDDINGS) {
        let mut d_embeddings = embeddings(sizes, view.embeddings.len(), batch, chunks);
        if architecture.embedding_scale != 1.0 {
            multiply(&mut d_embeddings, T::of(architecture.embedding_scale));
        }
        gradients.insert(EMBEDDINGS.to_string(), d_embeddings);
    }
    gradients
}

fn last_norm<T: KernelScalar>(
    sizes: KernelSizes,
    view: &WeightsView<'_, T>,
    chunk: &mut SequenceChunk<T>,
    d_out: &[T],
) {
    let n = chunk.rows * sizes.hidden;
    let x = &chunk.residual[sizes.layers][..n];
    let t = &mut chunk.temporary;
    let (d_output, dw) = (zeroed(&mut t.d_output, n), zeroed(&mut t.partial.last_norm, sizes.hidden));
    norm::backward(x, &view.norm, &chunk.last_scale[..chunk.rows], &d_out[..n], d_output, dw);
}

struct LayerPass<'a, T: KernelScalar> {
    i: usize,
    sizes: KernelSizes,
    branch_config: BranchConfig<T>,
    architecture: &'a Architecture,
    view: &'a LayerView<'a, T>,
    angles: &'a [RotaryAngles<T>],
    dropout: Option<&'a Dropout>,
    keep: ActivationPolicy,
}

impl<T: KernelScalar> LayerPass<'_, T> {
    fn place<'c>(&'c self, rows: usize, sequence: usize, ranges: &'c [Range<usize>]) -> ChunkContext<'c> {
        ChunkContext { layer: self.i, rows, sequence, ranges, dropout: self.dropout }
    }
    /// Returns the index of the layer's activations.
    fn activation_index(&self) -> usize {
        SequenceChunk::<T>::activation_index(self.keep, self.i)
    }
    /// Computes `d_input` from `d_output`, and leaves the inputs of the weight gradients in the chunk.
    fn chunk(&self, chunk: &mut SequenceChunk<T>) {
        self.mlp(chunk);
        self.attention(chunk);
        self.input(chunk);
    }

    fn mlp(&self, chunk: &mut SequenceChunk<T>) {
        let (KernelSizes { hidden, inner, .. }, rows) = (self.sizes, chunk.rows);
        let place = self.place(rows, chunk.sequences.start, &chunk.ranges);
        let layer = &chunk.layers[self.activation_index()];
        let t = &mut chunk.temporary;
        let d_output = &t.d_output[..rows * hidden];
        let out = OutNorm {
            weight: self.view.norms.mlp_out.as_deref(),
            raw: &layer.mlp_raw,
            scales: &layer.mlp_scale,
            share: &mut t.partial.mlp_out,
        };
        let d_mlp = self.branch_config.output_gradient(out, d_output, &mut t.branch, &mut t.d_mlp);
        let d_inner = fit(&mut t.d_inner, rows * inner);
        let low = &mut t.lora[Projection::Down as usize];
        self.view.down.backward(place, MatrixView::rows(d_mlp, hidden), low, (d_inner, false));
        let d_gate_up = fit(&mut t.d_gate_up, rows * 2 * inner);
        gated::backward(
            self.architecture.activation,
            &layer.gate_up[..rows * 2 * inner],
            inner,
            d_inner,
            d_gate_up,
            fit(&mut t.inner, rows * inner),
        );
        self.view.down.lora_input(place, &t.inner, low);
        let d_normed = fit(&mut t.d_normed, rows * hidden);
        for (part, column) in [(Projection::Gate, 0), (Projection::Up, inner)] {
            let (dy, low) = (MatrixView::rows(&d_gate_up[column..], 2 * inner), &mut t.lora[part as usize]);
            self.view.linear(part).backward(place, dy, low, (&mut *d_normed, column > 0));
        }

        let (middle, scales) = (&layer.middle[..rows * hidden], &layer.middle_scale[..rows]);
        let d_middle = fit(&mut t.d_middle, rows * hidden);
        d_middle.copy_from_slice(d_output);
        let normed = fit(&mut t.normed_middle, rows * hidden);
        let weight = self.view.norms.mlp_in.as_deref();
        residual_gradient(middle, weight, scales, d_normed, normed, d_middle, &mut t.partial.mlp_in);
        for part in [Projection::Gate, Projection::Up] {
            self.view.linear(part).lora_input(place, normed, &mut t.lora[part as usize]);
        }
    }

    fn attention(&self, chunk: &mut SequenceChunk<T>) {
        let (sizes, rows) = (self.sizes, chunk.rows);
        let (hidden, query, width) = (sizes.hidden, sizes.query, sizes.qkv());
        let place = self.place(rows, chunk.sequences.start, &chunk.ranges);
        let layer = &chunk.layers[self.activation_index()];
        let t = &mut chunk.temporary;
        let out = OutNorm {
            weight: self.view.norms.attention_out.as_deref(),
            raw: &layer.attention_raw,
            scales: &layer.attention_scale,
            share: &mut t.partial.attention_out,
        };
        let d_attention =
            self.branch_config.output_gradient(out, &t.d_middle[..rows * hidden], &mut t.branch, &mut t.d_attention);
        if self.view.output_bias.is_some() {
            add_columns(d_attention, hidden, 0, zeroed(&mut t.partial.output_bias, hidden));
        }
        let LayerKind { window, rope } = self.architecture.layers[self.i];
        let heads = Heads { window, ..sizes.heads };
        let d_attended = fit(&mut t.d_attended, rows * query);
        let low = &mut t.lora[Projection::Output as usize];
        let dy = MatrixView::rows(d_attention, hidden);
        self.view.output.backward(place, dy, low, (&mut *d_attended, false));
        self.view.output.lora_input(place, &layer.attended, low);
        let d_qkv = fit(&mut t.d_qkv, rows * width);
        for range in &chunk.ranges {
            let (wide, narrow, sums) = (scaled(range, width), scaled(range, query), scaled(range, heads.queries));
            let (qkv, attended, log_sums) =
                (&layer.qkv[wide.clone()], &layer.attended[narrow.clone()], &layer.log_sums[sums]);
            attention::backward(
                heads,
                qkv,
                attended,
                log_sums,
                &d_attended[narrow],
                &mut t.attention,
                &mut d_qkv[wide.clone()],
            );
            if let Some(rope) = rope {
                self.angles[rope].rotate_rows(&mut d_qkv[wide], width, heads.queries + heads.keys, heads.dim, true);
            }
        }
    }

    fn input(&self, chunk: &mut SequenceChunk<T>) {
        let (sizes, rows) = (self.sizes, chunk.rows);
        let (hidden, query, key, width) = (sizes.hidden, sizes.query, sizes.key, sizes.qkv());
        if self.view.query_norm.is_some() {
            self.head_norms(chunk);
        }
        let place = self.place(rows, chunk.sequences.start, &chunk.ranges);
        let x = &chunk.residual[self.i][..rows * hidden];
        let t = &mut chunk.temporary;
        let d_qkv = &t.d_qkv[..rows * width];
        if self.view.biases.is_some() {
            add_columns(d_qkv, width, 0, zeroed(&mut t.partial.bias, width));
        }
        let d_normed = fit(&mut t.d_normed, rows * hidden);
        let parts = [(Projection::Query, 0), (Projection::Key, query), (Projection::Value, query + key)];
        for (part, column) in parts {
            let (dy, low) = (MatrixView::rows(&d_qkv[column..], width), &mut t.lora[part as usize]);
            self.view.linear(part).backward(place, dy, low, (&mut *d_normed, column > 0));
        }

        let scales = &chunk.layers[self.activation_index()].input_scale[..rows];
        let d_input = fit(&mut t.d_input, rows * hidden);
        d_input.copy_from_slice(&t.d_middle[..rows * hidden]);
        let normed = fit(&mut t.normed, rows * hidden);
        let weight = self.view.norms.attention_in.as_deref();
        residual_gradient(x, weight, scales, d_normed, normed, d_input, &mut t.partial.attention_in);
        for (part, _) in parts {
            self.view.linear(part).lora_input(place, normed, &mut t.lora[part as usize]);
        }
    }

    /// Propagates the gradients of queries and keys through their norms, row by row in place.
    fn head_norms(&self, chunk: &mut SequenceChunk<T>) {
        let (Some(query_norm), Some(key_norm)) = (&self.view.query_norm, &self.view.key_norm) else { return };
        let (query, both, width) = (self.sizes.query, self.sizes.query + self.sizes.key, self.sizes.qkv());
        let (query_groups, key_groups) = self.sizes.norm_groups;
        let layer = &chunk.layers[self.activation_index()];
        let PartialGradients { query_norm: dq, key_norm: dk, .. } = &mut chunk.temporary.partial;
        let (dq, dk) = (zeroed(dq, query_norm.len()), zeroed(dk, key_norm.len()));
        let mut upstream = vec![T::ZERO; both];
        let saved = layer.raw.chunks_exact(both).zip(layer.raw_scale.chunks_exact(query_groups + key_groups));
        for (row, (raw, scales)) in chunk.temporary.d_qkv[..chunk.rows * width].chunks_exact_mut(width).zip(saved) {
            upstream.copy_from_slice(&row[..both]);
            row[..both].fill(T::ZERO);
            let (d_query, d_key) = row[..both].split_at_mut(query);
            norm::backward(&raw[..query], query_norm, &scales[..query_groups], &upstream[..query], d_query, dq);
            norm::backward(&raw[query..], key_norm, &scales[query_groups..], &upstream[query..], d_key, dk);
        }
    }
}
