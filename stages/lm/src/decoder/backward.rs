//! The gradient of the hidden states, taken to the gradients of all parameters below the head.
//!
//! A layer has two phases. First every chunk takes the gradient through the layer on its own; then the weight
//! gradients are computed tile by tile, each tile summing over the chunks in order. No two threads add to one number,
//! and every sum has the order of the batch.

use super::branch::{Joint, OutNorm, back_to_residual, zeroed};
use super::forward::scaled;
use super::state::{Chunk, Partial, Sizes, Workspace, fit};
use super::view::{LayerView, View};
use crate::batch::TokenBatch;
use crate::config::ModelConfig;
use crate::families::{Architecture, LayerKind};
use crate::ops::attention::{self, Heads};
use crate::ops::rotary::Angles;
use crate::ops::vector::{add_columns, add_into, multiply};
use crate::ops::{Matrix, Scalar, gated, norm, product};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Rows of a weight matrix whose gradient is one task.
const TILE: usize = 64;

/// `d_out` is `[batch.rows(), hidden]`; the workspace holds the forward pass of the same batch. Returns the gradients
/// by name.
pub(super) fn run<T: Scalar>(
    config: &ModelConfig,
    view: &View<'_, T>,
    batch: &TokenBatch,
    workspace: &mut Workspace<T>,
    d_out: &[T],
) -> BTreeMap<String, Vec<T>> {
    let sizes = Sizes::of(config);
    let Workspace { chunks, used, angles, .. } = workspace;
    let chunks = &mut chunks[..*used];
    let (joint, architecture) = (Joint::of(config), &config.architecture);
    let mut gradients = BTreeMap::new();

    let starts: Vec<usize> = chunks.iter().map(|c| batch.range(c.sequences.start).start * sizes.hidden).collect();
    chunks.par_iter_mut().zip(starts).for_each(|(chunk, start)| last_norm(sizes, view, chunk, &d_out[start..]));
    gradients.insert("model.norm.weight".to_string(), sum(chunks, sizes.hidden, |p| &p.last_norm));

    for i in (0..sizes.layers).rev() {
        let pass = LayerPass { i, sizes, joint, architecture, view: &view.layers[i], angles };
        chunks.par_iter_mut().for_each(|chunk| pass.chunk(chunk));
        pass.vectors(chunks, &mut gradients);
        pass.matrices(chunks, &mut gradients);
        for chunk in chunks.iter_mut() {
            std::mem::swap(&mut chunk.temporary.d_output, &mut chunk.temporary.d_input);
        }
    }
    let mut d_embeddings = embeddings(sizes, view.embeddings.len(), batch, chunks);
    if architecture.embedding_scale != 1.0 {
        multiply(&mut d_embeddings, T::of(architecture.embedding_scale));
    }
    gradients.insert("model.embed_tokens.weight".into(), d_embeddings);
    gradients
}

fn last_norm<T: Scalar>(sizes: Sizes, view: &View<'_, T>, chunk: &mut Chunk<T>, d_out: &[T]) {
    let n = chunk.rows * sizes.hidden;
    let x = &chunk.residual[sizes.layers][..n];
    let t = &mut chunk.temporary;
    let (d_output, dw) = (zeroed(&mut t.d_output, n), zeroed(&mut t.partial.last_norm, sizes.hidden));
    norm::backward(x, &view.norm, &chunk.last_scale[..chunk.rows], &d_out[..n], d_output, dw);
}

/// Sum of one vector's shares over the chunks, in order.
fn sum<T: Scalar>(chunks: &[Chunk<T>], n: usize, part: impl Fn(&Partial<T>) -> &[T]) -> Vec<T> {
    let mut total = vec![T::ZERO; n];
    for chunk in chunks {
        add_into(&mut total, &part(&chunk.temporary.partial)[..n]);
    }
    total
}

fn embeddings<T: Scalar>(sizes: Sizes, n: usize, batch: &TokenBatch, chunks: &[Chunk<T>]) -> Vec<T> {
    let mut total = vec![T::ZERO; n];
    for chunk in chunks {
        let tokens = batch.sequences()[chunk.sequences.clone()].iter().flatten();
        for (row, token) in chunk.temporary.d_output.chunks_exact(sizes.hidden).zip(tokens) {
            let start = *token as usize * sizes.hidden;
            add_into(&mut total[start..start + sizes.hidden], row);
        }
    }
    total
}

struct LayerPass<'a, T: Scalar> {
    i: usize,
    sizes: Sizes,
    joint: Joint<T>,
    architecture: &'a Architecture,
    view: &'a LayerView<'a, T>,
    angles: &'a [Angles<T>],
}

impl<T: Scalar> LayerPass<'_, T> {
    /// From `d_output` to `d_input`, leaving in the chunk what the weight gradients need.
    fn chunk(&self, chunk: &mut Chunk<T>) {
        self.mlp(chunk);
        self.attention(chunk);
        self.input(chunk);
    }

    fn mlp(&self, chunk: &mut Chunk<T>) {
        let (Sizes { hidden, inner, .. }, rows) = (self.sizes, chunk.rows);
        let layer = &chunk.layers[self.i];
        let t = &mut chunk.temporary;
        let d_output = &t.d_output[..rows * hidden];
        let out = OutNorm {
            weight: self.view.norms.mlp_out.as_deref(),
            raw: &layer.mlp_raw,
            scales: &layer.mlp_scale,
            share: &mut t.partial.mlp_out,
        };
        let d_mlp = self.joint.leave(out, d_output, &mut t.branch, &mut t.d_mlp);
        let d_inner = fit(&mut t.d_inner, rows * inner);
        product(
            (rows, inner, hidden),
            Matrix::rows(d_mlp, hidden),
            Matrix::rows(self.view.down, inner),
            d_inner,
            inner,
            false,
        );
        let d_gate_up = fit(&mut t.d_gate_up, rows * 2 * inner);
        gated::backward(
            self.architecture.activation,
            &layer.gate_up[..rows * 2 * inner],
            inner,
            d_inner,
            d_gate_up,
            fit(&mut t.inner, rows * inner),
        );
        let d_normed = fit(&mut t.d_normed, rows * hidden);
        product(
            (rows, hidden, inner),
            Matrix::rows(d_gate_up, 2 * inner),
            Matrix::rows(self.view.gate, hidden),
            d_normed,
            hidden,
            false,
        );
        product(
            (rows, hidden, inner),
            Matrix::rows(&d_gate_up[inner..], 2 * inner),
            Matrix::rows(self.view.up, hidden),
            d_normed,
            hidden,
            true,
        );

        let (middle, scales) = (&layer.middle[..rows * hidden], &layer.middle_scale[..rows]);
        let d_middle = fit(&mut t.d_middle, rows * hidden);
        d_middle.copy_from_slice(d_output);
        let normed = fit(&mut t.normed_middle, rows * hidden);
        let weight = self.view.norms.mlp_in.as_deref();
        back_to_residual(middle, weight, scales, d_normed, normed, d_middle, &mut t.partial.mlp_in);
    }

    fn attention(&self, chunk: &mut Chunk<T>) {
        let (sizes, rows) = (self.sizes, chunk.rows);
        let (hidden, query, width) = (sizes.hidden, sizes.query, sizes.qkv());
        let layer = &chunk.layers[self.i];
        let t = &mut chunk.temporary;
        let out = OutNorm {
            weight: self.view.norms.attention_out.as_deref(),
            raw: &layer.attention_raw,
            scales: &layer.attention_scale,
            share: &mut t.partial.attention_out,
        };
        let d_attention = self.joint.leave(out, &t.d_middle[..rows * hidden], &mut t.branch, &mut t.d_attention);
        if self.view.output_bias.is_some() {
            add_columns(d_attention, hidden, 0, zeroed(&mut t.partial.output_bias, hidden));
        }
        let LayerKind { window, rope } = self.architecture.layers[self.i];
        let heads = Heads { window, ..sizes.heads };
        let d_attended = fit(&mut t.d_attended, rows * query);
        product(
            (rows, query, hidden),
            Matrix::rows(d_attention, hidden),
            Matrix::rows(self.view.output, query),
            d_attended,
            query,
            false,
        );
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
                self.angles[rope].turn_rows(&mut d_qkv[wide], width, heads.queries + heads.keys, heads.dim, true);
            }
        }
    }

    fn input(&self, chunk: &mut Chunk<T>) {
        let (sizes, rows) = (self.sizes, chunk.rows);
        let (hidden, query, key, width) = (sizes.hidden, sizes.query, sizes.key, sizes.qkv());
        if self.view.query_norm.is_some() {
            self.head_norms(chunk);
        }
        let x = &chunk.residual[self.i][..rows * hidden];
        let t = &mut chunk.temporary;
        let d_qkv = &t.d_qkv[..rows * width];
        if self.view.biases.is_some() {
            add_columns(d_qkv, width, 0, zeroed(&mut t.partial.bias, width));
        }
        let d_normed = fit(&mut t.d_normed, rows * hidden);
        product(
            (rows, hidden, query),
            Matrix::rows(d_qkv, width),
            Matrix::rows(self.view.query, hidden),
            d_normed,
            hidden,
            false,
        );
        product(
            (rows, hidden, key),
            Matrix::rows(&d_qkv[query..], width),
            Matrix::rows(self.view.key, hidden),
            d_normed,
            hidden,
            true,
        );
        product(
            (rows, hidden, key),
            Matrix::rows(&d_qkv[query + key..], width),
            Matrix::rows(self.view.value, hidden),
            d_normed,
            hidden,
            true,
        );

        let scales = &chunk.layers[self.i].input_scale[..rows];
        let d_input = fit(&mut t.d_input, rows * hidden);
        d_input.copy_from_slice(&t.d_middle[..rows * hidden]);
        let normed = fit(&mut t.normed, rows * hidden);
        let weight = self.view.norms.attention_in.as_deref();
        back_to_residual(x, weight, scales, d_normed, normed, d_input, &mut t.partial.attention_in);
    }

    /// Takes the gradients of queries and keys through their norms, row by row in place.
    fn head_norms(&self, chunk: &mut Chunk<T>) {
        let (Some(query_norm), Some(key_norm)) = (&self.view.query_norm, &self.view.key_norm) else { return };
        let (query, both, width) = (self.sizes.query, self.sizes.query + self.sizes.key, self.sizes.qkv());
        let (query_groups, key_groups) = self.sizes.norm_groups;
        let layer = &chunk.layers[self.i];
        let Partial { query_norm: dq, key_norm: dk, .. } = &mut chunk.temporary.partial;
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

    fn name(&self, part: &str) -> String {
        format!("model.layers.{}.{part}", self.i)
    }

    /// Gradients of norms and biases: shares of the chunks, summed.
    fn vectors(&self, chunks: &[Chunk<T>], gradients: &mut BTreeMap<String, Vec<T>>) {
        let Sizes { hidden, query, key, .. } = self.sizes;
        let names = &self.architecture.norms;
        let mut norm = |name: Option<&str>, share: fn(&Partial<T>) -> &[T]| {
            if let Some(name) = name {
                gradients.insert(self.name(&format!("{name}.weight")), sum(chunks, hidden, share));
            }
        };
        norm(names.attention_in, |p| &p.attention_in);
        norm(names.attention_out, |p| &p.attention_out);
        norm(names.mlp_in, |p| &p.mlp_in);
        norm(names.mlp_out, |p| &p.mlp_out);
        if let (Some(q), Some(k)) = (&self.view.query_norm, &self.view.key_norm) {
            gradients.insert(self.name("self_attn.q_norm.weight"), sum(chunks, q.len(), |p| &p.query_norm));
            gradients.insert(self.name("self_attn.k_norm.weight"), sum(chunks, k.len(), |p| &p.key_norm));
        }
        if self.view.biases.is_some() {
            let all = sum(chunks, self.sizes.qkv(), |p| &p.bias);
            gradients.insert(self.name("self_attn.q_proj.bias"), all[..query].to_vec());
            gradients.insert(self.name("self_attn.k_proj.bias"), all[query..query + key].to_vec());
            gradients.insert(self.name("self_attn.v_proj.bias"), all[query + key..].to_vec());
        }
        if self.view.output_bias.is_some() {
            gradients.insert(self.name("self_attn.o_proj.bias"), sum(chunks, hidden, |p| &p.output_bias));
        }
    }

    /// Gradients of the seven matrices: d_outᵀ · input, tile by tile.
    fn matrices(&self, chunks: &[Chunk<T>], gradients: &mut BTreeMap<String, Vec<T>>) {
        let mut matrices: Vec<(Matrices, Vec<T>)> =
            Matrices::ALL.iter().map(|m| (*m, vec![T::ZERO; m.rows(self.sizes) * m.columns(self.sizes)])).collect();
        let mut tiles = Vec::new();
        for (matrix, out) in &mut matrices {
            let columns = matrix.columns(self.sizes);
            tiles.extend(out.chunks_mut(TILE * columns).enumerate().map(|(tile, out)| (*matrix, tile * TILE, out)));
        }
        tiles.into_par_iter().for_each(|(matrix, first, out)| {
            let columns = matrix.columns(self.sizes);
            for (i, chunk) in chunks.iter().enumerate() {
                let (d, x) = matrix.factors(self.sizes, self.i, chunk);
                let d = Matrix { data: &d.data[first..], ..d }.transposed();
                product((out.len() / columns, columns, chunk.rows), d, x, out, columns, i > 0);
            }
        });
        for (matrix, values) in matrices {
            gradients.insert(self.name(matrix.name()), values);
        }
    }
}

#[derive(Clone, Copy)]
enum Matrices {
    Query,
    Key,
    Value,
    Output,
    Gate,
    Up,
    Down,
}

impl Matrices {
    const ALL: [Self; 7] = [Self::Query, Self::Key, Self::Value, Self::Output, Self::Gate, Self::Up, Self::Down];

    fn name(self) -> &'static str {
        match self {
            Self::Query => "self_attn.q_proj.weight",
            Self::Key => "self_attn.k_proj.weight",
            Self::Value => "self_attn.v_proj.weight",
            Self::Output => "self_attn.o_proj.weight",
            Self::Gate => "mlp.gate_proj.weight",
            Self::Up => "mlp.up_proj.weight",
            Self::Down => "mlp.down_proj.weight",
        }
    }
    fn rows(self, sizes: Sizes) -> usize {
        match self {
            Self::Query => sizes.query,
            Self::Key | Self::Value => sizes.key,
            Self::Output | Self::Down => sizes.hidden,
            Self::Gate | Self::Up => sizes.inner,
        }
    }
    fn columns(self, sizes: Sizes) -> usize {
        match self {
            Self::Output => sizes.query,
            Self::Down => sizes.inner,
            _ => sizes.hidden,
        }
    }
    /// Gradient of the matrix's output, and its input, over the chunk's rows.
    fn factors<T: Scalar>(self, sizes: Sizes, layer: usize, chunk: &Chunk<T>) -> (Matrix<'_, T>, Matrix<'_, T>) {
        let t = &chunk.temporary;
        let (normed, middle) = (Matrix::rows(&t.normed, sizes.hidden), Matrix::rows(&t.normed_middle, sizes.hidden));
        let qkv = |offset: usize| Matrix::rows(&t.d_qkv[offset..], sizes.qkv());
        match self {
            Self::Query => (qkv(0), normed),
            Self::Key => (qkv(sizes.query), normed),
            Self::Value => (qkv(sizes.query + sizes.key), normed),
            Self::Output => {
                let d = if t.d_attention.is_empty() { &t.d_middle } else { &t.d_attention };
                (Matrix::rows(d, sizes.hidden), Matrix::rows(&chunk.layers[layer].attended, sizes.query))
            }
            Self::Gate => (Matrix::rows(&t.d_gate_up, 2 * sizes.inner), middle),
            Self::Up => (Matrix::rows(&t.d_gate_up[sizes.inner..], 2 * sizes.inner), middle),
            Self::Down => {
                let d = if t.d_mlp.is_empty() { &t.d_output } else { &t.d_mlp };
                (Matrix::rows(d, sizes.hidden), Matrix::rows(&t.inner, sizes.inner))
            }
        }
    }
}
