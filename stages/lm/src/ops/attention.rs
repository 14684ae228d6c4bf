//! Causal attention over one sequence, with grouped key-value heads (Ainslie et al., arXiv 2305.13245).
//!
//! A block of queries sees only the keys up to its own end, so about half of the square is never computed. Only the
//! log-sum-exp of each row is kept; the backward computes the probabilities again block by block (Dao et al., arXiv
//! 2205.14135). A row of `qkv` is `[query heads | key heads | value heads]`, already rotated.

use super::vector::{dot, exp_sum, largest, transpose};
use super::{Matrix, Scalar, product};

/// Queries per block.
const BLOCK: usize = 64;

/// Numbers of heads and their width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub queries: usize,
    /// Divides `queries`.
    pub keys: usize,
    /// Width of a head.
    pub dim: usize,
}

impl Heads {
    /// Width of a row of `qkv`.
    pub fn width(self) -> usize {
        (self.queries + 2 * self.keys) * self.dim
    }
    fn scale<T: Scalar>(self) -> T {
        T::of(1.0 / (self.dim as f64).sqrt())
    }
    fn key_of(self, query: usize) -> usize {
        query / (self.queries / self.keys)
    }
    fn key_column(self, key: usize) -> usize {
        (self.queries + key) * self.dim
    }
    fn value_column(self, key: usize) -> usize {
        (self.queries + self.keys + key) * self.dim
    }
}

/// Memory that calls share; it grows to the longest sequence.
#[derive(Debug, Clone, Default)]
pub struct Scratch<T> {
    scores: Vec<T>,
    d_scores: Vec<T>,
    keys: Vec<T>,
    values: Vec<T>,
    pulls: Vec<T>,
}

impl<T: Scalar> Scratch<T> {
    fn cover(&mut self, length: usize, dim: usize) {
        let grow = |v: &mut Vec<T>, n: usize| {
            if v.len() < n {
                v.resize(n, T::ZERO);
            }
        };
        grow(&mut self.scores, BLOCK * length);
        grow(&mut self.d_scores, BLOCK * length);
        grow(&mut self.keys, dim * length);
        grow(&mut self.values, dim * length);
        grow(&mut self.pulls, BLOCK);
    }
}

/// Attention of a sequence of `qkv.len() / heads.width()` tokens: `out` gets `queries · dim` per row, `log_sums` one
/// number per row and query head.
pub fn forward<T: Scalar>(heads: Heads, qkv: &[T], scratch: &mut Scratch<T>, out: &mut [T], log_sums: &mut [T]) {
    let (width, dim, out_width) = (heads.width(), heads.dim, heads.queries * heads.dim);
    let length = qkv.len() / width;
    assert!(qkv.len() == length * width && out.len() == length * out_width && log_sums.len() == length * heads.queries);
    scratch.cover(length, dim);
    for query in 0..heads.queries {
        let key = heads.key_of(query);
        if query == 0 || heads.key_of(query - 1) != key {
            transpose(&qkv[heads.key_column(key)..], width, length, dim, &mut scratch.keys, length);
        }
        let values = &qkv[heads.value_column(key)..];
        for first in (0..length).step_by(BLOCK) {
            let end = (first + BLOCK).min(length);
            let (rows, q) = (end - first, &qkv[first * width + query * dim..]);
            let scores = &mut scratch.scores[..rows * end];
            product((rows, end, dim), Matrix::rows(q, width), Matrix::rows(&scratch.keys, length), scores, end, false);
            softmax(scores, end, first, heads.scale(), &mut log_sums[first * heads.queries + query..], heads.queries);
            let block = &mut out[first * out_width + query * dim..];
            product((rows, dim, end), Matrix::rows(scores, end), Matrix::rows(values, width), block, out_width, false);
        }
    }
}

/// Gradient of [`forward`]: from `d_out` writes every element of `d_qkv`.
pub fn backward<T: Scalar>(
    heads: Heads,
    qkv: &[T],
    out: &[T],
    log_sums: &[T],
    d_out: &[T],
    scratch: &mut Scratch<T>,
    d_qkv: &mut [T],
) {
    let (width, dim, out_width) = (heads.width(), heads.dim, heads.queries * heads.dim);
    let length = qkv.len() / width;
    assert!(d_qkv.len() == qkv.len() && out.len() == length * out_width && d_out.len() == out.len());
    scratch.cover(length, dim);
    for row in d_qkv.chunks_exact_mut(width) {
        row[out_width..].fill(T::ZERO);
    }
    for query in 0..heads.queries {
        let key = heads.key_of(query);
        let (key_column, value_column) = (heads.key_column(key), heads.value_column(key));
        if query == 0 || heads.key_of(query - 1) != key {
            transpose(&qkv[key_column..], width, length, dim, &mut scratch.keys, length);
            transpose(&qkv[value_column..], width, length, dim, &mut scratch.values, length);
        }
        for first in (0..length).step_by(BLOCK) {
            let end = (first + BLOCK).min(length);
            let rows = end - first;
            let q = Matrix::rows(&qkv[first * width + query * dim..], width);
            let d_block = Matrix::rows(&d_out[first * out_width + query * dim..], out_width);
            let scores = &mut scratch.scores[..rows * end];
            let d_scores = &mut scratch.d_scores[..rows * end];
            product((rows, end, dim), q, Matrix::rows(&scratch.keys, length), scores, end, false);
            product((rows, end, dim), d_block, Matrix::rows(&scratch.values, length), d_scores, end, false);
            let pulls = &mut scratch.pulls[..rows];
            row_dots(&out[first * out_width + query * dim..], d_block.data, out_width, dim, pulls);
            softmax_backward(
                scores,
                d_scores,
                first,
                heads.scale(),
                &log_sums[first * heads.queries + query..],
                heads.queries,
                pulls,
            );
            let (p, ds) = (Matrix::rows(scores, end), Matrix::rows(d_scores, end));
            let k = Matrix::rows(&qkv[key_column..], width);
            product((rows, dim, end), ds, k, &mut d_qkv[first * width + query * dim..], width, false);
            product((end, dim, rows), ds.transposed(), q, &mut d_qkv[key_column..], width, true);
            product((end, dim, rows), p.transposed(), d_block, &mut d_qkv[value_column..], width, true);
        }
    }
}

vectorized! {
    /// Each row of scores becomes probabilities over its first `first + r + 1` columns, 0 elsewhere; keeps the
    /// log-sum-exp.
    fn softmax(scores: &mut [T], width: usize, first: usize, scale: T, log_sums: &mut [T], stride: usize) {
        for (r, row) in scores.chunks_exact_mut(width).enumerate() {
            let (seen, future) = row.split_at_mut(first + r + 1);
            let top = largest(seen) * scale;
            let sum = exp_sum(seen, scale, top);
            let share = T::ONE / sum;
            for p in seen {
                *p *= share;
            }
            future.fill(T::ZERO);
            log_sums[r * stride] = top + sum.ln();
        }
    }
}

vectorized! {
    /// Scores become probabilities again, and the gradients of probabilities those of unscaled scores.
    fn softmax_backward(
        scores: &mut [T],
        d_scores: &mut [T],
        first: usize,
        scale: T,
        log_sums: &[T],
        stride: usize,
        pulls: &[T],
    ) {
        let width = scores.len() / pulls.len();
        for (r, (row, d_row)) in scores.chunks_exact_mut(width).zip(d_scores.chunks_exact_mut(width)).enumerate() {
            let (seen, future) = row.split_at_mut(first + r + 1);
            let (d_seen, d_future) = d_row.split_at_mut(first + r + 1);
            let (shift, pull) = (log_sums[r * stride], pulls[r]);
            for (s, d) in seen.iter_mut().zip(d_seen) {
                let p = s.fma(scale, -shift).exp();
                *s = p;
                *d = p * (*d - pull) * scale;
            }
            future.fill(T::ZERO);
            d_future.fill(T::ZERO);
        }
    }
}

vectorized! {
    /// Σ out · d_out of each row: what the softmax's normalization pulls back.
    fn row_dots(a: &[T], b: &[T], stride: usize, dim: usize, sums: &mut [T]) {
        for (r, sum) in sums.iter_mut().enumerate() {
            *sum = dot(&a[r * stride..r * stride + dim], &b[r * stride..r * stride + dim]);
        }
    }
}
