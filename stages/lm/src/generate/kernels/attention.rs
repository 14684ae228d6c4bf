//! Causal attention of query rows over cached blocks of 16 positions.
#![expect(unsafe_code, reason = "vector loads from cache blocks; the bounds are asserted per block")]

use super::elementwise::exp_shifted_body;
use super::lanes::{Lanes, kernel};
use crate::generate::cache::{BLOCK, Block};
use std::sync::Arc;

/// Sizes of the attention of a layer, and which layer.
#[derive(Debug, Clone, Copy)]
pub struct AttentionShape {
    pub layer: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
}

impl AttentionShape {
    /// Values of one position and head in the cache: `head_dim` up to whole vectors.
    pub fn padded(&self) -> usize {
        self.head_dim.next_multiple_of(16)
    }
    /// Where the keys `[head_dim][16]` of a key-value head start in a block.
    pub fn keys_at(&self, kv: usize) -> usize {
        (self.layer * self.kv_heads + kv) * self.head_dim * BLOCK
    }
    /// Where the values `[16][padded]` of a key-value head start in a block.
    pub fn values_at(&self, kv: usize) -> usize {
        (self.layer * self.kv_heads + kv) * self.padded() * BLOCK
    }
}

/// Queries that one pass over the keys serves, where the registers allow it.
const QUERIES: usize = 8;
/// Queries that one pass over the values serves: each needs four sums.
const MIXED: usize = 4;

/// Buffers that are reused from call to call.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    /// `[query][position up to whole blocks]`.
    scores: Vec<f32>,
    /// One output of padded head size per query.
    mixed: Vec<f32>,
}

/// Consecutive positions of one sequence: `rows` queries of which the first sees `length` positions, the next one more, and so on.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    pub blocks: &'a [Arc<Block>],
    pub length: usize,
    pub rows: usize,
}

kernel! {
    /// `out[h] = softmax(query[h] · keys) values` over the positions that a row sees, for every row of a span and every head `h`.
    ///
    /// `query` has rows of `stride` values of which the first `heads * head_dim` are the (scaled) queries; `out` has rows of
    /// `heads * head_dim`. Scores are one chain over the head's dimensions; values are four chains by position modulo 4, added
    /// in pairs. Rows and heads that share keys are computed side by side, each as if alone.
    attention = attention_body(shape: AttentionShape, span: Span<'_>, query: &[f32], stride: usize, scratch: &mut AttentionScratch, out: &mut [f32])
}

#[inline(always)]
fn attention_body<L: Lanes>(shape: AttentionShape, span: Span<'_>, query: &[f32], stride: usize, scratch: &mut AttentionScratch, out: &mut [f32]) {
    let d = shape.head_dim;
    let group = shape.heads / shape.kv_heads;
    let width = (span.length + span.rows - 1).next_multiple_of(BLOCK);
    scratch.scores.resize(QUERIES * width, 0.0);
    scratch.mixed.resize(MIXED * shape.padded(), 0.0);
    // A query of the span: its row, and its head within the group.
    let count = span.rows * group;
    let place = |q: usize, kv: usize| (q / group, kv * group + q % group);
    for kv in 0..shape.kv_heads {
        let mut first = 0;
        while first < count {
            let n = if L::ROWS >= QUERIES { (count - first).min(QUERIES) } else { 1 };
            let mut queries = [&query[..0]; QUERIES];
            let mut lengths = [0; QUERIES];
            for (i, q) in queries.iter_mut().take(n).enumerate() {
                let (row, head) = place(first + i, kv);
                *q = &query[row * stride + head * d..][..d];
                lengths[i] = span.length + row;
            }
            score_all::<L>(shape, kv, span.blocks, &queries[..n], lengths[n - 1], width, &mut scratch.scores);
            let mut scales = [0.0; QUERIES];
            for (i, scores) in scratch.scores.chunks_exact_mut(width).take(n).enumerate() {
                scales[i] = soften::<L>(scores, lengths[i]);
            }
            let mut i = 0;
            while i < n {
                let m = if n - i >= MIXED && L::ROWS >= QUERIES { MIXED } else { 1 };
                let scores = &scratch.scores[i * width..(i + m) * width];
                match m {
                    1 => mix::<L, 1>(shape, kv, span.blocks, scores, &lengths[i..], &scales[i..], &mut scratch.mixed),
                    _ => mix::<L, MIXED>(shape, kv, span.blocks, scores, &lengths[i..], &scales[i..], &mut scratch.mixed),
                }
                for (j, mixed) in scratch.mixed.chunks_exact(shape.padded()).take(m).enumerate() {
                    let (row, head) = place(first + i + j, kv);
                    out[(row * shape.heads + head) * d..][..d].copy_from_slice(&mixed[..d]);
                }
                i += m;
            }
            first += n;
        }
    }
}

/// Scores of all queries over the first `length` positions, up to whole blocks.
#[inline(always)]
fn score_all<L: Lanes>(shape: AttentionShape, kv: usize, blocks: &[Arc<Block>], queries: &[&[f32]], length: usize, width: usize, scores: &mut [f32]) {
    for (b, block) in blocks[..length.div_ceil(BLOCK)].iter().enumerate() {
        let keys = &block.keys[shape.keys_at(kv)..][..shape.head_dim * BLOCK];
        let mut q = 0;
        while q < queries.len() {
            let out = &mut scores[q * width + b * BLOCK..];
            q += match queries.len() - q {
                8.. => score::<L, 8>(keys, &queries[q..], width, out),
                4.. => score::<L, 4>(keys, &queries[q..], width, out),
                2.. => score::<L, 2>(keys, &queries[q..], width, out),
                _ => score::<L, 1>(keys, &queries[q..], width, out),
            };
        }
    }
}

/// Scores of `Q` queries over one block; those of query `i` go to `out[i * width..][..16]`.
#[inline(always)]
fn score<L: Lanes, const Q: usize>(keys: &[f32], queries: &[&[f32]], width: usize, out: &mut [f32]) -> usize {
    let d = keys.len() / BLOCK;
    assert!(queries.len() >= Q && queries[..Q].iter().all(|q| q.len() == d) && out.len() >= (Q - 1) * width + BLOCK);
    // SAFETY: `keys` holds d rows of 16 values, every query d values, `out` 16 values at each multiple of `width` below Q.
    unsafe {
        let mut sums = [L::splat(0.0); Q];
        for i in 0..d {
            let key = L::load(keys.as_ptr().add(i * BLOCK));
            for (sum, query) in sums.iter_mut().zip(queries) {
                *sum = L::fma(L::splat(*query.as_ptr().add(i)), key, *sum);
            }
        }
        for (i, &sum) in sums.iter().enumerate() {
            L::store(out.as_mut_ptr().add(i * width), sum);
        }
    }
    Q
}

/// Turns scores into weights, 0 beyond `length`; returns what the weighted sum is to be multiplied with.
#[inline(always)]
fn soften<L: Lanes>(scores: &mut [f32], length: usize) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; 16];
    for chunk in scores[..length].chunks(16) {
        for (lane, &s) in lanes.iter_mut().zip(chunk) {
            *lane = if s > *lane { s } else { *lane };
        }
    }
    let highest = lanes.into_iter().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a });
    let scores = &mut scores[..length.next_multiple_of(BLOCK)];
    scores[length..].fill(f32::NEG_INFINITY);
    1.0 / exp_shifted_body::<L>(scores, highest)
}

/// `out[q] = scales[q] * Σ weights[q][t] values[t]` over `t < lengths[q]`, for `Q` queries in rows of ascending length.
#[inline(always)]
fn mix<L: Lanes, const Q: usize>(shape: AttentionShape, kv: usize, blocks: &[Arc<Block>], weights: &[f32], lengths: &[usize], scales: &[f32], out: &mut [f32]) {
    let (size, width) = (shape.padded(), weights.len() / Q);
    let common = lengths[0];
    assert!(lengths[Q - 1] <= width && scales.len() >= Q && out.len() >= Q * size && blocks.len() * BLOCK >= lengths[Q - 1]);
    for column in (0..size).step_by(16) {
        // SAFETY: each block holds 16 positions of `size` values from `values_at(kv)` and `column + 16 <= size`; weights and
        // outputs are inside their rows by the assertion.
        unsafe {
            let mut sums = [[L::splat(0.0); 4]; Q];
            for (b, block) in blocks[..common.div_ceil(BLOCK)].iter().enumerate() {
                let values = block.values[shape.values_at(kv)..][..size * BLOCK].as_ptr().add(column);
                let weights = weights.as_ptr().add(b * BLOCK);
                let here = (common - b * BLOCK).min(BLOCK);
                for t in (0..here / 4 * 4).step_by(4) {
                    for chain in 0..4 {
                        add_value::<L, Q>(&mut sums, chain, values.add((t + chain) * size), weights.add(t + chain), width);
                    }
                }
                for t in here / 4 * 4..here {
                    add_value::<L, Q>(&mut sums, t % 4, values.add(t * size), weights.add(t), width);
                }
            }
            for (q, sums) in sums.iter_mut().enumerate() {
                for t in common..lengths[q] {
                    let values = blocks[t / BLOCK].values[shape.values_at(kv)..][..size * BLOCK].as_ptr().add(t % BLOCK * size + column);
                    sums[t % 4] = L::fma(L::splat(*weights.as_ptr().add(q * width + t)), L::load(values), sums[t % 4]);
                }
                let sum = L::add(L::add(sums[0], sums[1]), L::add(sums[2], sums[3]));
                L::store(out.as_mut_ptr().add(q * size + column), L::mul(sum, L::splat(scales[q])));
            }
        }
    }
}

/// Adds one position's values to a chain of every query.
///
/// # Safety
/// `values` is valid for 16 values, `weights` for one at each multiple of `width` below `Q`.
#[inline(always)]
unsafe fn add_value<L: Lanes, const Q: usize>(sums: &mut [[L::V; 4]; Q], chain: usize, values: *const f32, weights: *const f32, width: usize) {
    // SAFETY: as the caller's.
    unsafe {
        let value = L::load(values);
        for (q, sums) in sums.iter_mut().enumerate() {
            sums[chain] = L::fma(L::splat(*weights.add(q * width)), value, sums[chain]);
        }
    }
}
