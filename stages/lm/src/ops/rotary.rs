//! Computes rotary position embeddings (Su et al., arXiv 2104.09864) in the half-split form of Hugging Face.
//!
//! Number i of the d rotated numbers of a head forms a pair with number i + d/2. Training and generation share the
//! tables and the rotation.

use super::KernelScalar;
use crate::families::Rope;

/// Cosines and sines of one rotation, `[positions, half]` each.
#[derive(Debug, Clone, Default)]
pub struct RotaryAngles<T> {
    cos: Vec<T>,
    sin: Vec<T>,
    /// Angle per position of each pair; `half` pairs.
    frequencies: Vec<f64>,
}

impl<T: KernelScalar> RotaryAngles<T> {
    /// Extends the tables to at least `positions`; existing entries stay.
    pub fn cover(&mut self, positions: usize, rope: &Rope, head_dim: usize) {
        let frequencies = rope.frequencies(head_dim);
        if self.frequencies != frequencies {
            *self = Self { cos: Vec::new(), sin: Vec::new(), frequencies };
        }
        let factor = rope.attention_factor();
        for position in self.positions()..positions {
            for frequency in &self.frequencies {
                let angle = position as f64 * frequency;
                self.cos.push(T::of(angle.cos() * factor));
                self.sin.push(T::of(angle.sin() * factor));
            }
        }
    }
    /// Rotates every head of a row by its position, which the tables must cover.
    pub fn rotate_row(&self, row: &mut [T], head_dim: usize, position: usize) {
        let half = self.frequencies.len();
        let at = position * half..(position + 1) * half;
        let layout = RotaryLayout { stride: row.len(), heads: row.len() / head_dim, dim: head_dim, half };
        rotate(row, layout, &self.cos[at.clone()], &self.sin[at], false);
    }
    /// Rotates the first `heads` heads of each row (row r is position r; rows are `stride` wide), forward, or in
    /// reverse with `back`.
    pub fn rotate_rows(&self, rows: &mut [T], stride: usize, heads: usize, head_dim: usize, back: bool) {
        let layout = RotaryLayout { stride, heads, dim: head_dim, half: self.frequencies.len() };
        rotate(rows, layout, &self.cos, &self.sin, back);
    }
    fn positions(&self) -> usize {
        self.cos.len().checked_div(self.frequencies.len()).unwrap_or(0)
    }
}

/// Rows `stride` apart that begin with `heads` heads of `dim` numbers, of which twice `half` rotate.
#[derive(Clone, Copy)]
struct RotaryLayout {
    stride: usize,
    heads: usize,
    dim: usize,
    half: usize,
}

vectorized! {
    fn rotate(rows: &mut [T], layout: RotaryLayout, cos: &[T], sin: &[T], back: bool) {
        let RotaryLayout { stride, heads, dim, half } = layout;
        let sign = if back { -T::ONE } else { T::ONE };
        for ((row, cos), sin) in rows.chunks_exact_mut(stride).zip(cos.chunks_exact(half)).zip(sin.chunks_exact(half)) {
            for head in row[..heads * dim].chunks_exact_mut(dim) {
                let (low, high) = head[..2 * half].split_at_mut(half);
                for (((a, b), c), s) in low.iter_mut().zip(high).zip(cos).zip(sin) {
                    let (x, y, s) = (*a, *b, *s * sign);
                    *a = x * *c - y * s;
                    *b = y * *c + x * s;
                }
            }
        }
    }
}
