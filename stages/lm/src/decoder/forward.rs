//! Computes hidden states from tokens.

use super::branch::{Branch, BranchConfig};
use super::linear::{ChunkContext, Dropout, LinearView};
use super::projection::Projection;
use super::state::{
    ActivationPolicy, KernelSizes, LayerActivations, LoraRows, PassLimits, SequenceChunk, TransposedLayer, Workspace,
    fit,
};
use super::view::{LayerView, WeightsView};
use crate::batch::SequenceBatch;
use crate::config::ModelConfig;
use crate::families::{Architecture, LayerKind};
use crate::ops::attention::{self, Heads};
use crate::ops::rotary::RotaryAngles;
use crate::ops::vector::{add_bias, multiply, transpose};
use crate::ops::{KernelScalar, MatrixView, gated, norm, product};
use rayon::prelude::*;
use std::ops::Range;

/// Runs the batch through the model and writes `[batch.rows(), hidden]` to `out`.
pub(super) fn run<T: KernelScalar>(
    config: &ModelConfig,
    view: &WeightsView<'_, T>,
    batch: &SequenceBatch,
    workspace: &mut Workspace<T>,
    (keep, limits, dropout): (ActivationPolicy, PassLimits, Option<&Dropout>),
    out: &mut [T],
) {
    let sizes = KernelSizes::of(config);
    workspace.arrange(config, batch, keep);
    transpose_weights(sizes, view, limits, &mut workspace.transposed);
    let Workspace { chunks, used, transposed, angles, .. } = workspace;
    let mut tasks = Vec::with_capacity(*used);
    let mut rest = out;
    for chunk in &mut chunks[..*used] {
        let (part, tail) = rest.split_at_mut(chunk.rows * sizes.hidden);
        tasks.push((chunk, part));
        rest = tail;
    }
    let pass = ForwardPass::new(config, view, (transposed, angles), keep, dropout);
    tasks.into_par_iter().for_each(|(chunk, part)| pass.chunk(batch, chunk, part));
}

/// One pass through the layers.
pub(super) struct ForwardPass<'a, T: KernelScalar> {
    sizes: KernelSizes,
    architecture: &'a Architecture,
    branch_config: BranchConfig<T>,
    view: &'a WeightsView<'a, T>,
    transposed: &'a [TransposedLayer<T>],
    angles: &'a [RotaryAngles<T>],
    keep: ActivationPolicy,
    dropout: Option<&'a Dropout>,
}

impl<'a, T: KernelScalar> ForwardPass<'a, T> {
    pub fn new(
        config: &'a ModelConfig,
        view: &'a WeightsView<'a, T>,
        (transposed, angles): (&'a [TransposedLayer<T>], &'a [RotaryAngles<T>]),
        keep: ActivationPolicy,
        dropout: Option<&'a Dropout>,
    ) -> Self {
        let (sizes, architecture, joint) = (KernelSizes::of(config), &config.architecture, BranchConfig::of(config));
        Self { sizes, architecture, branch_config: joint, view, transposed, angles, keep, dropout }
    }

    fn chunk(&self, batch: &SequenceBatch, chunk: &mut SequenceChunk<T>, out: &mut [T]) {
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
            self.activations(i, chunk);
            self.output(i, chunk);
        }
        let last = self.residual(self.sizes.layers);
        let n = chunk.rows * hidden;
        norm::forward(
            &chunk.residual[last][..n],
            &self.view.norm,
            self.branch_config.epsilon,
            out,
            &mut chunk.last_scale[..chunk.rows],
        );
    }

    /// Returns the index of the input of layer `i`. Without a backward, two buffers alternate.
    fn residual(&self, i: usize) -> usize {
        if self.keep == ActivationPolicy::Nothing { i % 2 } else { i }
    }

    /// Computes all activations that the backward of a layer reads, from its input.
    pub fn activations(&self, i: usize, chunk: &mut SequenceChunk<T>) {
        let (sizes, rows) = (self.sizes, chunk.rows);
        let (view, transposed) = (&self.view.layers[i], self.transposed.get(i));
        let x = &chunk.residual[self.residual(i)][..rows * sizes.hidden];
        let layer = &mut chunk.layers[SequenceChunk::<T>::activation_index(self.keep, i)];
        let sequence = chunk.sequences.start;
        let place = ChunkContext { layer: i, rows, sequence, ranges: &chunk.ranges, dropout: self.dropout };
        let t = &mut chunk.temporary;
        let normed = fit(&mut t.normed, rows * sizes.hidden);
        self.branch_config.normalize_input(
            x,
            view.norms.attention_in.as_deref(),
            normed,
            &mut layer.input_scale[..rows],
        );
        self.project((view, transposed), place, normed, layer, &mut t.lora);
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
            place,
            input: attended,
            linear: &view.output,
            transposed: transposed.map(|t| t.output.as_slice()),
            lora: &mut t.lora[Projection::Output as usize],
            bias: view.output_bias,
            norm: view.norms.attention_out.as_deref(),
        };
        self.branch_config.add_branch(
            branch,
            middle,
            &mut t.branch,
            &mut layer.attention_raw,
            &mut layer.attention_scale,
        );

        self.branch_config.normalize_input(
            middle,
            view.norms.mlp_in.as_deref(),
            normed,
            &mut layer.middle_scale[..rows],
        );
        let gate_up = &mut layer.gate_up[..rows * 2 * sizes.inner];
        side_by_side(&[&view.gate, &view.up], rows, normed, transposed.map(|t| t.gate_up.as_slice()), gate_up);
        for (part, column) in [(Projection::Gate, 0), (Projection::Up, sizes.inner)] {
            let (low, out) = (&mut t.lora[part as usize], &mut gate_up[column..]);
            view.linear(part).add_lora(place, normed, low, out, 2 * sizes.inner);
        }
    }

    /// Computes the layer's output from its activations.
    fn output(&self, i: usize, chunk: &mut SequenceChunk<T>) {
        let (sizes, rows) = (self.sizes, chunk.rows);
        let (view, transposed) = (&self.view.layers[i], self.transposed.get(i));
        let sequence = chunk.sequences.start;
        let place = ChunkContext { layer: i, rows, sequence, ranges: &chunk.ranges, dropout: self.dropout };
        let layer = &mut chunk.layers[SequenceChunk::<T>::activation_index(self.keep, i)];
        let next = &mut chunk.residual[self.residual(i + 1)][..rows * sizes.hidden];
        let t = &mut chunk.temporary;
        let inner = fit(&mut t.inner, rows * sizes.inner);
        let gate_up = &layer.gate_up[..rows * 2 * sizes.inner];
        gated::forward(self.architecture.activation, gate_up, sizes.inner, inner);
        next.copy_from_slice(&layer.middle[..rows * sizes.hidden]);
        let branch = Branch {
            place,
            input: inner,
            linear: &view.down,
            transposed: transposed.map(|t| t.down.as_slice()),
            lora: &mut t.lora[Projection::Down as usize],
            bias: None,
            norm: view.norms.mlp_out.as_deref(),
        };
        self.branch_config.add_branch(branch, next, &mut t.branch, &mut layer.mlp_raw, &mut layer.mlp_scale);
    }

    /// Returns the heads of a layer, with its window.
    fn heads(&self, i: usize) -> Heads {
        Heads { window: self.architecture.layers[i].window, ..self.sizes.heads }
    }

    /// Computes queries, keys and values: projected, biased, normed.
    fn project(
        &self,
        (view, transposed): (&LayerView<'_, T>, Option<&TransposedLayer<T>>),
        place: ChunkContext<'_>,
        normed: &[T],
        layer: &mut LayerActivations<T>,
        low: &mut [LoraRows<T>; 7],
    ) {
        let (sizes, width, rows) = (self.sizes, self.sizes.qkv(), place.rows);
        let qkv = &mut layer.qkv[..rows * width];
        let parts = [&view.query, &view.key, &view.value];
        side_by_side(&parts, rows, normed, transposed.map(|t| t.qkv.as_slice()), qkv);
        for (part, column) in
            [(Projection::Query, 0), (Projection::Key, sizes.query), (Projection::Value, sizes.query + sizes.key)]
        {
            view.linear(part).add_lora(place, normed, &mut low[part as usize], &mut qkv[column..], width);
        }
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
                norm::forward(raw_q, query, self.branch_config.epsilon, &mut row[..sizes.query], scale_q);
                norm::forward(raw_k, key, self.branch_config.epsilon, &mut row[sizes.query..both], scale_k);
            }
        }
    }

    fn rotate(&self, i: usize, ranges: &[Range<usize>], layer: &mut LayerActivations<T>) {
        let LayerKind { rope: Some(rope), .. } = self.architecture.layers[i] else { return };
        let (width, heads) = (self.sizes.qkv(), self.sizes.heads);
        for range in ranges {
            let rows = &mut layer.qkv[scaled(range, width)];
            self.angles[rope].rotate_rows(rows, width, heads.queries + heads.keys, heads.dim, false);
        }
    }
}

/// Converts a range of rows to a range of numbers.
pub(super) fn scaled(range: &Range<usize>, width: usize) -> Range<usize> {
    range.start * width..range.end * width
}

/// Computes `y = x·Wᵀ` for linear layers that share their input, with adjacent outputs: in one product where the
/// weights are transposed.
fn side_by_side<T: KernelScalar>(
    linears: &[&LinearView<'_, T>],
    rows: usize,
    x: &[T],
    transposed: Option<&[T]>,
    y: &mut [T],
) {
    let inputs = linears[0].inputs;
    let width: usize = linears.iter().map(|linear| linear.outputs).sum();
    if let Some(transposed) = transposed {
        let size = (rows, width, inputs);
        product(size, MatrixView::rows(x, inputs), MatrixView::rows(transposed, width), y, width, false);
        return;
    }
    let mut column = 0;
    for linear in linears {
        let weight = MatrixView::rows(linear.weight, inputs).transposed();
        let size = (rows, linear.outputs, inputs);
        product(size, MatrixView::rows(x, inputs), weight, &mut y[column..], width, false);
        column += linear.outputs;
    }
}

/// Transposes every layer's matrices to `[in, out]`, if they are small: queries, keys and values adjacent, and gate and
/// up adjacent.
fn transpose_weights<T: KernelScalar>(
    sizes: KernelSizes,
    view: &WeightsView<'_, T>,
    limits: PassLimits,
    transposed: &mut Vec<TransposedLayer<T>>,
) {
    let layers = if sizes.matrices() <= limits.transposed { sizes.layers } else { 0 };
    transposed.resize_with(layers, TransposedLayer::default);
    transposed.par_iter_mut().zip(&view.layers).for_each(|(transposed, layer)| {
        let (h, width, inner) = (sizes.hidden, sizes.qkv(), sizes.inner);
        let qkv = fit(&mut transposed.qkv, h * width);
        transpose(layer.query.weight, h, sizes.query, h, qkv, width);
        transpose(layer.key.weight, h, sizes.key, h, &mut qkv[sizes.query..], width);
        transpose(layer.value.weight, h, sizes.key, h, &mut qkv[sizes.query + sizes.key..], width);
        transpose(layer.output.weight, sizes.query, h, sizes.query, fit(&mut transposed.output, h * sizes.query), h);
        let gate_up = fit(&mut transposed.gate_up, h * 2 * inner);
        transpose(layer.gate.weight, h, inner, h, gate_up, 2 * inner);
        transpose(layer.up.weight, h, inner, h, &mut gate_up[inner..], 2 * inner);
        transpose(layer.down.weight, inner, h, inner, fit(&mut transposed.down, h * inner), h);
    });
}
