//! Computes causal attention over one sequence, with grouped key-value heads (Ainslie et al., arXiv 2305.13245).
//!
//! A block of queries reads only the keys up to the end of the block, and with a sliding window only the keys from the
//! window of its first query on. The kernels never compute the rest of the square. The forward pass keeps only the
//! log-sum-exp of each row, and the backward pass computes the probabilities again block by block (Dao et al., arXiv
//! 2205.14135). A row of `qkv` is `[query heads | key heads | value heads]`, already rotated.

use super::vector::{dot, exp_sum, largest, transpose};
use super::{KernelScalar, MatrixView, product};

/// Queries per block.
const BLOCK: usize = 64;

/// Numbers of heads, their width, scale and window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Heads {
    /// Query heads.
    pub queries: usize,
    /// Divides `queries`.
    pub keys: usize,
    /// Width of a head.
    pub dim: usize,
    /// Multiplies the products of queries and keys.
    pub scale: f64,
    /// Number of tokens that a query sees, including its own; `None` = all before it.
    pub window: Option<usize>,
}

impl Heads {
    /// Creates heads with the usual scale 1/√dim, without a window.
    pub fn new(queries: usize, keys: usize, dim: usize) -> Self {
        Self { queries, keys, dim, scale: 1.0 / (dim as f64).sqrt(), window: None }
    }
    /// Returns the first token that the query at position `place` sees.
    fn first_seen(self, place: usize) -> usize {
        self.window.map_or(0, |w| (place + 1).saturating_sub(w))
    }
    /// Returns the width of a row of `qkv`.
    pub fn width(self) -> usize {
        (self.queries + 2 * self.keys) * self.dim
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

/// Buffers that calls share. They grow to the longest sequence.
#[derive(Debug, Clone, Default)]
pub struct AttentionBuffers<T> {
    scores: Vec<T>,
    d_scores: Vec<T>,
    keys: Vec<T>,
    values: Vec<T>,
    deltas: Vec<T>,
}

impl<T: KernelScalar> AttentionBuffers<T> {
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
        grow(&mut self.deltas, BLOCK);
    }
}

/// Computes attention of a sequence of `qkv.len() / heads.width()` tokens: writes `queries · dim` numbers per row to
/// `out`, and one per row and query head to `log_sums`.
pub fn forward<T: KernelScalar>(
    heads: Heads,
    qkv: &[T],
    scratch: &mut AttentionBuffers<T>,
    out: &mut [T],
    log_sums: &mut [T],
) {
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
            let block = QueryBlock::new(heads, first, length);
            let (rows, seen) = (block.rows, block.seen);
            let q = MatrixView::rows(&qkv[first * width + query * dim..], width);
            let scores = &mut scratch.scores[..rows * seen];
            let keys = MatrixView::rows(&scratch.keys[block.low..], length);
            product((rows, seen, dim), q, keys, scores, seen, false);
            softmax(scores, block, T::of(heads.scale), &mut log_sums[first * heads.queries + query..], heads.queries);
            let values = MatrixView::rows(&values[block.low * width..], width);
            let out = &mut out[first * out_width + query * dim..];
            product((rows, dim, seen), MatrixView::rows(scores, seen), values, out, out_width, false);
        }
    }
}

/// Computes the gradient of [`forward`]: writes every element of `d_qkv` from `d_out`.
pub fn backward<T: KernelScalar>(
    heads: Heads,
    qkv: &[T],
    out: &[T],
    log_sums: &[T],
    d_out: &[T],
    scratch: &mut AttentionBuffers<T>,
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
            let block = QueryBlock::new(heads, first, length);
            let (rows, seen, low) = (block.rows, block.seen, block.low);
            let q = MatrixView::rows(&qkv[first * width + query * dim..], width);
            let d_block = MatrixView::rows(&d_out[first * out_width + query * dim..], out_width);
            let scores = &mut scratch.scores[..rows * seen];
            let d_scores = &mut scratch.d_scores[..rows * seen];
            product((rows, seen, dim), q, MatrixView::rows(&scratch.keys[low..], length), scores, seen, false);
            product(
                (rows, seen, dim),
                d_block,
                MatrixView::rows(&scratch.values[low..], length),
                d_scores,
                seen,
                false,
            );
            let deltas = &mut scratch.deltas[..rows];
            row_dots(&out[first * out_width + query * dim..], d_block.data, out_width, dim, deltas);
            softmax_backward(
                scores,
                d_scores,
                block,
                T::of(heads.scale),
                &log_sums[first * heads.queries + query..],
                heads.queries,
                deltas,
            );
            let (p, ds) = (MatrixView::rows(scores, seen), MatrixView::rows(d_scores, seen));
            let k = MatrixView::rows(&qkv[low * width + key_column..], width);
            product((rows, dim, seen), ds, k, &mut d_qkv[first * width + query * dim..], width, false);
            product((seen, dim, rows), ds.transposed(), q, &mut d_qkv[low * width + key_column..], width, true);
            product((seen, dim, rows), p.transposed(), d_block, &mut d_qkv[low * width + value_column..], width, true);
        }
    }
}

/// A block of queries and the keys that the queries see together.
#[derive(Clone, Copy)]
struct QueryBlock {
    heads: Heads,
    /// First query.
    first: usize,
    rows: usize,
    /// First key.
    low: usize,
    /// Keys.
    seen: usize,
}

impl QueryBlock {
    fn new(heads: Heads, first: usize, length: usize) -> Self {
        let (end, low) = ((first + BLOCK).min(length), heads.first_seen(first));
        Self { heads, first, rows: end - first, low, seen: end - low }
    }
    /// Returns the columns that row `r` sees.
    #[inline(always)]
    fn columns(self, r: usize) -> std::ops::Range<usize> {
        self.heads.first_seen(self.first + r) - self.low..self.first + r + 1 - self.low
    }
}

vectorized! {
    /// Converts each row of scores to probabilities over the columns that the row sees, 0 elsewhere. Stores the
    /// log-sum-exp of each row in `log_sums`.
    fn softmax(scores: &mut [T], block: QueryBlock, scale: T, log_sums: &mut [T], stride: usize) {
        for (r, row) in scores.chunks_exact_mut(block.seen).enumerate() {
            let columns = block.columns(r);
            let (seen, future) = row.split_at_mut(columns.end);
            let (past, seen) = seen.split_at_mut(columns.start);
            past.fill(T::ZERO);
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
    /// Computes the probabilities of scores again, and converts the gradients of probabilities to gradients of unscaled
    /// scores.
    fn softmax_backward(
        scores: &mut [T],
        d_scores: &mut [T],
        block: QueryBlock,
        scale: T,
        log_sums: &[T],
        stride: usize,
        deltas: &[T],
    ) {
        let width = block.seen;
        for (r, (row, d_row)) in scores.chunks_exact_mut(width).zip(d_scores.chunks_exact_mut(width)).enumerate() {
            let columns = block.columns(r);
            let (seen, future) = row.split_at_mut(columns.end);
            let (d_seen, d_future) = d_row.split_at_mut(columns.end);
            let ((past, seen), (d_past, d_seen)) =
                (seen.split_at_mut(columns.start), d_seen.split_at_mut(columns.start));
            past.fill(T::ZERO);
            d_past.fill(T::ZERO);
            let (shift, delta) = (log_sums[r * stride], deltas[r]);
            for (s, d) in seen.iter_mut().zip(d_seen) {
                let p = s.fma(scale, -shift).exp();
                *s = p;
                *d = p * (*d - delta) * scale;
            }
            future.fill(T::ZERO);
            d_future.fill(T::ZERO);
        }
    }
}

vectorized! {
    /// Computes Σ out · d_out of each row, the normalization term of the softmax's backward.
    fn row_dots(a: &[T], b: &[T], stride: usize, dim: usize, sums: &mut [T]) {
        for (r, sum) in sums.iter_mut().enumerate() {
            *sum = dot(&a[r * stride..r * stride + dim], &b[r * stride..r * stride + dim]);
        }
    }
}
