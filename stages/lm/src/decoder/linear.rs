//! Computes a linear layer of the decoder: y = x·Wᵀ, and with an adapter + scale · dropout(x)·Aᵀ·Bᵀ.
//!
//! Biases and the fused product of layers that share their input belong to the decoder layer.

use super::state::{LoraRows, fit};
use crate::ops::vector::add_into;
use crate::ops::{KernelScalar, MatrixView, product};
use std::ops::Range;
use trainyard_core::Chance;

/// The factors of an adapter: `down` is A `[rank, in]`, `up` is B `[out, rank]`, or the linear layer's rows of a B that
/// it shares with others.
#[derive(Clone, Copy)]
pub(super) struct LoraView<'a, T> {
    /// The adapted layer's name below the decoder layer.
    pub layer: &'static str,
    pub down: &'a [T],
    pub up: &'a [T],
    pub rank: usize,
    pub scale: T,
}

/// A weight `[outputs, inputs]`, row after row, and its adapter's factors.
#[derive(Clone, Copy)]
pub(super) struct LinearView<'a, T> {
    pub weight: &'a [T],
    pub inputs: usize,
    pub outputs: usize,
    pub lora: Option<LoraView<'a, T>>,
}

/// Sets a share of an adapter's inputs to 0 and divides the others by the remaining share. The draw of a number is
/// keyed by its layer, adapted part, sequence of the batch and position, so both directions of a pass, and all
/// backends, draw the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// In [0, 1).
    pub share: f64,
    /// Random source of one pass.
    pub chance: Chance,
}

/// The rows of a chunk with their layer and their sequences.
#[derive(Clone, Copy)]
pub(super) struct ChunkContext<'a> {
    pub layer: usize,
    pub rows: usize,
    /// The first sequence of the chunk.
    pub sequence: usize,
    /// Rows of each sequence.
    pub ranges: &'a [Range<usize>],
    pub dropout: Option<&'a Dropout>,
}

impl Dropout {
    /// Returns the dropout of pass number `pass` of a step, derived from a learner's dropout.
    pub(crate) fn for_pass(self, step: u64, pass: u64) -> Self {
        Self { chance: self.chance.child("pass", &[step, pass]), ..self }
    }
    /// Applies dropout to the inputs `[rows, width]` of the adapted layer `part`, where each sequence has its range of
    /// rows and `sequence` is the number of the first one in the batch.
    pub(crate) fn apply<T: KernelScalar>(
        &self,
        part: &str,
        (layer, sequence): (usize, usize),
        ranges: &[Range<usize>],
        width: usize,
        values: &mut [T],
    ) {
        let (keep, limit) = (T::of(1.0 / (1.0 - self.share)), (self.share * f64::from(u32::MAX)) as u32);
        for (i, range) in ranges.iter().enumerate() {
            let at = [layer as u64, (sequence + i) as u64];
            let mut draws = self.chance.at(part, &at);
            for value in &mut values[range.start * width..range.end * width] {
                *value = if draws.next_u32() < limit { T::ZERO } else { *value * keep };
            }
        }
    }
}

impl ChunkContext<'_> {
    /// Returns the key of the dropout's draws: the layer and the first sequence.
    fn dropout_key(&self) -> (usize, usize) {
        (self.layer, self.sequence)
    }
}

impl<T: KernelScalar> LinearView<'_, T> {
    /// Computes `y = x·Wᵀ`, or `y += x·Wᵀ` with `add`, without the adapter; `transposed` is Wᵀ if it was computed
    /// before.
    pub fn forward(&self, rows: usize, x: &[T], transposed: Option<&[T]>, (y, add): (&mut [T], bool)) {
        let weight = match transposed {
            Some(transposed) => MatrixView::rows(transposed, self.outputs),
            None => MatrixView::rows(self.weight, self.inputs).transposed(),
        };
        product((rows, self.outputs, self.inputs), MatrixView::rows(x, self.inputs), weight, y, self.outputs, add);
    }

    /// Computes `y += scale · dropout(x)·Aᵀ·Bᵀ`, with rows of y `y_row` apart. Does nothing if the layer has no
    /// adapter.
    pub fn add_lora(&self, place: ChunkContext<'_>, x: &[T], kept: &mut LoraRows<T>, y: &mut [T], y_row: usize) {
        let Some(low) = self.lora else { return };
        self.lora_input(place, x, kept);
        let inner = MatrixView::rows(&kept.inner, low.rank);
        let up = MatrixView::rows(low.up, low.rank).transposed();
        product((place.rows, self.outputs, low.rank), inner, up, y, y_row, true);
    }

    /// Computes the inputs of the gradients of A and B into `kept`: dropout(x), and scale · dropout(x)·Aᵀ.
    pub fn lora_input(&self, place: ChunkContext<'_>, x: &[T], kept: &mut LoraRows<T>) {
        let Some(low) = self.lora else { return };
        let ChunkContext { rows, .. } = place;
        let x = match place.dropout {
            None => x,
            Some(dropout) => {
                let dropped = fit(&mut kept.dropped, rows * self.inputs);
                dropped.copy_from_slice(&x[..rows * self.inputs]);
                dropout.apply(low.layer, place.dropout_key(), place.ranges, self.inputs, dropped);
                dropped
            }
        };
        let inner = fit(&mut kept.inner, rows * low.rank);
        let down = MatrixView::rows(low.down, self.inputs).transposed();
        product((rows, low.rank, self.inputs), MatrixView::rows(x, self.inputs), down, inner, low.rank, false);
        inner.iter_mut().for_each(|v| *v *= low.scale);
    }

    /// Computes the gradient of x from the gradient of y, including the adapter's share: `dx = …`, or `dx += …` with
    /// `add`. Leaves the gradient of the adapter's inner rows in `kept`.
    pub fn backward(
        &self,
        place: ChunkContext<'_>,
        dy: MatrixView<'_, T>,
        kept: &mut LoraRows<T>,
        (dx, add): (&mut [T], bool),
    ) {
        let ChunkContext { rows, .. } = place;
        let weight = MatrixView::rows(self.weight, self.inputs);
        product((rows, self.inputs, self.outputs), dy, weight, dx, self.inputs, add);
        let Some(low) = self.lora else { return };
        let d_inner = fit(&mut kept.d_inner, rows * low.rank);
        let up = MatrixView::rows(low.up, low.rank);
        product((rows, low.rank, self.outputs), dy, up, d_inner, low.rank, false);
        d_inner.iter_mut().for_each(|v| *v *= low.scale);
        let (d_inner, down) = (MatrixView::rows(d_inner, low.rank), MatrixView::rows(low.down, self.inputs));
        let size = (rows, self.inputs, low.rank);
        match place.dropout {
            None => product(size, d_inner, down, dx, self.inputs, true),
            Some(dropout) => {
                let d_dropped = fit(&mut kept.d_dropped, rows * self.inputs);
                product(size, d_inner, down, d_dropped, self.inputs, false);
                dropout.apply(low.layer, place.dropout_key(), place.ranges, self.inputs, d_dropped);
                add_into(dx, d_dropped);
            }
        }
    }
}
