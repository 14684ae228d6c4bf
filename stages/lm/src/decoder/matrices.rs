//! Gradients of a layer's matrices: d_outᵀ · input, tile by tile, each tile summing over the chunks in order. No two
//! threads add to one number, and every sum has the order of the batch.

use super::gradients::LayerGradients;
use super::part::Part;
use super::state::{Chunk, Sizes, Temporary};
use crate::adapter::{DOWN, UP};
use crate::ops::{Matrix, Scalar, product};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Rows of a weight matrix whose gradient is one task: enough that packing the inputs, which each task repeats, is
/// cheap compared to the products.
const TILE: usize = 256;
/// The same for a matrix with at most this many columns.
const NARROW_TILE: usize = 64;

/// Adds the gradients of the layer's trained matrices, by name.
pub(super) fn gradients<T: Scalar>(
    pass: &LayerGradients<'_, T>,
    chunks: &[Chunk<T>],
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
                let d = Matrix { data: &d.data[first..], ..d }.transposed();
                product((out.len() / columns, columns, chunk.rows), d, x, out, columns, n + i > 0);
            }
        }
    });
    gradients.extend(matrices.into_iter().map(|matrix| (matrix.name, matrix.values)));
}

/// The gradient of one tensor.
struct Gradient<T> {
    name: String,
    /// Blocks of rows, from the top. The gradient of each is a sum over parts of the layer: more than one where they
    /// share a factor of an adapter.
    blocks: Vec<Vec<Factors>>,
    values: Vec<T>,
}

fn learned<T: Scalar>(pass: &LayerGradients<'_, T>) -> Vec<Gradient<T>> {
    let mut gradients: Vec<Gradient<T>> = Vec::new();
    for (name, factors) in Part::ALL.into_iter().flat_map(|part| Factors::of_part(pass, part)) {
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
    part: Part,
    /// Suffix of the name.
    suffix: &'static str,
    rows: usize,
    columns: usize,
}

impl Factors {
    /// Returns the matrices of a part with their names below the decoder layer.
    fn of_part<T: Scalar>(pass: &LayerGradients<'_, T>, part: Part) -> impl Iterator<Item = (String, Self)> {
        let (outputs, inputs) = pass.sizes.of_part(part);
        let of =
            move |name: &str, suffix, rows, columns| (format!("{name}{suffix}"), Self { part, suffix, rows, columns });
        let low = pass
            .view
            .linear(part)
            .low
            .map(|low| [of(low.layer, DOWN, low.rank, inputs), of(low.layer, UP, outputs, low.rank)]);
        std::iter::once(of(part.name(), ".weight", outputs, inputs)).chain(low.into_iter().flatten())
    }
    /// Returns the gradient of the matrix's output, and its input, over the chunk's rows.
    fn of<'c, T: Scalar>(self, pass: &LayerGradients<'_, T>, chunk: &'c Chunk<T>) -> (Matrix<'c, T>, Matrix<'c, T>) {
        let t = &chunk.temporary;
        let (d, x) = dense(pass.sizes, self.part, t, &chunk.layers[pass.kept].attended);
        let low = &t.low[self.part as usize];
        match self.suffix {
            DOWN if pass.dropout => (Matrix::rows(&low.d_inner, self.rows), Matrix::rows(&low.dropped, self.columns)),
            DOWN => (Matrix::rows(&low.d_inner, self.rows), x),
            UP => (d, Matrix::rows(&low.inner, self.columns)),
            _ => (d, x),
        }
    }
}

/// Returns the gradient of a part's output, and its input.
fn dense<'c, T: Scalar>(
    sizes: Sizes,
    part: Part,
    t: &'c Temporary<T>,
    attended: &'c [T],
) -> (Matrix<'c, T>, Matrix<'c, T>) {
    let (normed, middle) = (Matrix::rows(&t.normed, sizes.hidden), Matrix::rows(&t.normed_middle, sizes.hidden));
    let qkv = |offset: usize| Matrix::rows(&t.d_qkv[offset..], sizes.qkv());
    match part {
        Part::Query => (qkv(0), normed),
        Part::Key => (qkv(sizes.query), normed),
        Part::Value => (qkv(sizes.query + sizes.key), normed),
        Part::Output => {
            let d = if t.d_attention.is_empty() { &t.d_middle } else { &t.d_attention };
            (Matrix::rows(d, sizes.hidden), Matrix::rows(attended, sizes.query))
        }
        Part::Gate => (Matrix::rows(&t.d_gate_up, 2 * sizes.inner), middle),
        Part::Up => (Matrix::rows(&t.d_gate_up[sizes.inner..], 2 * sizes.inner), middle),
        Part::Down => {
            let d = if t.d_mlp.is_empty() { &t.d_output } else { &t.d_mlp };
            (Matrix::rows(d, sizes.hidden), Matrix::rows(&t.inner, sizes.inner))
        }
    }
}
