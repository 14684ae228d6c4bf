//! Computes the gradients of a layer's matrices: d_outᵀ · input, tile by tile.
//!
//! Each tile sums over the chunks in order. No two threads add to one number, so every sum has the order of the batch.

use super::gradients::LayerGradients;
use super::projection::Projection;
use super::state::{ChunkScratch, KernelSizes, SequenceChunk};
use crate::adapter::{DOWN, UP};
use crate::ops::{KernelScalar, MatrixView, product};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Rows of a weight matrix whose gradient is one task. Each task packs the inputs again, so a task has enough rows that
/// packing costs little compared to the products.
const TILE: usize = 256;
/// Rows of a task for a matrix with at most this many columns.
const NARROW_TILE: usize = 64;

/// Adds the gradients of the layer's trained matrices to the map, by name.
pub(super) fn gradients<T: KernelScalar>(
    pass: &LayerGradients<'_, T>,
    chunks: &[SequenceChunk<T>],
    gradients: &mut BTreeMap<String, Vec<T>>,
) {
    let mut matrices = learned(pass);
    let mut tiles = Vec::new();
    for matrix in &mut matrices {
        let mut rest = matrix.values.as_mut_slice();
        for block in &matrix.blocks {
            let (own, after) = rest.split_at_mut(block[0].rows * block[0].columns);
            let rows = if block[0].columns > NARROW_TILE { TILE } else { NARROW_TILE };
            let tile = rows * block[0].columns;
            tiles.extend(own.chunks_mut(tile).enumerate().map(|(tile, out)| (block, tile * rows, out)));
            rest = after;
        }
    }
    tiles.into_par_iter().for_each(|(block, first, out)| {
        for (n, factors) in block.iter().enumerate() {
            let columns = factors.columns;
            for (i, chunk) in chunks.iter().enumerate() {
                let (d, x) = factors.of(pass, chunk);
                let d = MatrixView { data: &d.data[first..], ..d }.transposed();
                product((out.len() / columns, columns, chunk.rows), d, x, out, columns, n + i > 0);
            }
        }
    });
    gradients.extend(matrices.into_iter().map(|matrix| (matrix.name, matrix.values)));
}

/// The gradient of one tensor.
struct Gradient<T> {
    name: String,
    /// Blocks of rows, from the top. The gradient of a block is a sum over parts of the layer: more than one if the
    /// parts share a factor of an adapter.
    blocks: Vec<Vec<Factors>>,
    values: Vec<T>,
}

fn learned<T: KernelScalar>(pass: &LayerGradients<'_, T>) -> Vec<Gradient<T>> {
    let mut gradients: Vec<Gradient<T>> = Vec::new();
    for (name, factors) in Projection::ALL.into_iter().flat_map(|part| Factors::of_part(pass, part)) {
        let name = format!("model.layers.{}.{name}", pass.layer);
        let fresh = vec![T::ZERO; factors.rows * factors.columns];
        match gradients.iter_mut().find(|gradient| gradient.name == name) {
            Some(shared) if factors.suffix == DOWN => shared.blocks[0].push(factors),
            Some(shared) => {
                shared.blocks.push(vec![factors]);
                shared.values.extend(fresh);
            }
            None if pass.learned.contains(&name) => {
                gradients.push(Gradient { name, blocks: vec![vec![factors]], values: fresh });
            }
            None => {}
        }
    }
    gradients
}

/// A matrix of a part: its weight, or one of the two factors of its adapter.
#[derive(Clone, Copy)]
struct Factors {
    part: Projection,
    /// Suffix of the name.
    suffix: &'static str,
    rows: usize,
    columns: usize,
}

impl Factors {
    /// Returns the matrices of a part with their names below the decoder layer.
    fn of_part<T: KernelScalar>(
        pass: &LayerGradients<'_, T>,
        part: Projection,
    ) -> impl Iterator<Item = (String, Self)> {
        let (outputs, inputs) = pass.sizes.projection_shape(part);
        let of =
            move |name: &str, suffix, rows, columns| (format!("{name}{suffix}"), Self { part, suffix, rows, columns });
        let low = pass
            .view
            .linear(part)
            .lora
            .map(|low| [of(low.layer, DOWN, low.rank, inputs), of(low.layer, UP, outputs, low.rank)]);
        std::iter::once(of(part.name(), ".weight", outputs, inputs)).chain(low.into_iter().flatten())
    }
    /// Returns the gradient of the matrix's output, and its input, over the chunk's rows.
    fn of<'c, T: KernelScalar>(
        self,
        pass: &LayerGradients<'_, T>,
        chunk: &'c SequenceChunk<T>,
    ) -> (MatrixView<'c, T>, MatrixView<'c, T>) {
        let t = &chunk.temporary;
        let (d, x) = dense(pass.sizes, self.part, t, &chunk.layers[pass.activation_index].attended);
        let low = &t.lora[self.part as usize];
        match self.suffix {
            DOWN if pass.dropout => {
                (MatrixView::rows(&low.d_inner, self.rows), MatrixView::rows(&low.dropped, self.columns))
            }
            DOWN => (MatrixView::rows(&low.d_inner, self.rows), x),
            UP => (d, MatrixView::rows(&low.inner, self.columns)),
            _ => (d, x),
        }
    }
}

/// Returns the gradient of a part's output, and its input.
fn dense<'c, T: KernelScalar>(
    sizes: KernelSizes,
    part: Projection,
    t: &'c ChunkScratch<T>,
    attended: &'c [T],
) -> (MatrixView<'c, T>, MatrixView<'c, T>) {
    let (normed, middle) =
        (MatrixView::rows(&t.normed, sizes.hidden), MatrixView::rows(&t.normed_middle, sizes.hidden));
    let qkv = |offset: usize| MatrixView::rows(&t.d_qkv[offset..], sizes.qkv());
    match part {
        Projection::Query => (qkv(0), normed),
        Projection::Key => (qkv(sizes.query), normed),
        Projection::Value => (qkv(sizes.query + sizes.key), normed),
        Projection::Output => {
            let d = if t.d_attention.is_empty() { &t.d_middle } else { &t.d_attention };
            (MatrixView::rows(d, sizes.hidden), MatrixView::rows(attended, sizes.query))
        }
        Projection::Gate => (MatrixView::rows(&t.d_gate_up, 2 * sizes.inner), middle),
        Projection::Up => (MatrixView::rows(&t.d_gate_up[sizes.inner..], 2 * sizes.inner), middle),
        Projection::Down => {
            let d = if t.d_mlp.is_empty() { &t.d_output } else { &t.d_mlp };
            (MatrixView::rows(d, sizes.hidden), MatrixView::rows(&t.inner, sizes.inner))
        }
    }
}
