//! Computes causal attention of one query row over cached blocks of 16 positions.
#![expect(unsafe_code, reason = "vector loads from cache blocks; the bounds are asserted per block")]

use super::elementwise::exp_shifted_body;
use super::lanes::{Lanes, kernel};
use crate::generate::cache::{AttentionShape, BLOCK, KvBlock};
use std::ops::Range;
use std::sync::Arc;

/// Buffers that are reused from row to row.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    scores: Vec<f32>,
    padded: Vec<f32>,
}

kernel! {
    /// Computes `out[h] = softmax(query[h] · keys) values` over the positions of `seen`, for every head `h` that reads
    /// one key-value head, whose index is given with the shape.
    ///
    /// `query` (already scaled) and `out` are the numbers of these heads in one row. Scores are one chain over the
    /// head's dimensions; values are four chains by position modulo 4, added in pairs.
    attention = attention_body(
        place: (AttentionShape, usize),
        query: &[f32],
        blocks: &[Arc<KvBlock>],
        seen: Range<usize>,
        scratch: &mut AttentionScratch,
        out: &mut [f32],
    )
}

#[inline(always)]
fn attention_body<L: Lanes>(
    (shape, kv): (AttentionShape, usize),
    query: &[f32],
    blocks: &[Arc<KvBlock>],
    seen: Range<usize>,
    scratch: &mut AttentionScratch,
    out: &mut [f32],
) {
    let d = shape.head_dim;
    // Blocks before a sliding window are not read.
    let before = seen.start / BLOCK;
    let blocks = &blocks[before..seen.end.div_ceil(BLOCK)];
    let (start, length) = (seen.start - before * BLOCK, seen.end - before * BLOCK);
    scratch.scores.resize(blocks.len() * BLOCK, 0.0);
    scratch.padded.resize(shape.padded(), 0.0);
    let (scores, padded) = (&mut scratch.scores[..], &mut scratch.padded[..]);
    for (query, out) in query.chunks_exact(d).zip(out.chunks_exact_mut(d)) {
        for (blocks, scores) in blocks.chunks_exact(4).zip(scores.chunks_exact_mut(4 * BLOCK)) {
            score::<L, 4>(shape, kv, query, blocks, scores);
        }
        let whole = blocks.len() / 4 * 4;
        for (block, scores) in blocks[whole..].chunks(1).zip(scores[whole * BLOCK..].chunks_exact_mut(BLOCK)) {
            score::<L, 1>(shape, kv, query, block, scores);
        }
        let mut highest = f32::NEG_INFINITY;
        for &s in &scores[start..length] {
            highest = if s > highest { s } else { highest };
        }
        scores[..start].fill(f32::NEG_INFINITY);
        scores[length..].fill(f32::NEG_INFINITY);
        let total = exp_shifted_body::<L>(scores, highest);
        weigh::<L>(shape, kv, blocks, &scores[..length], 1.0 / total, padded);
        out.copy_from_slice(&padded[..d]);
    }
}

/// Computes the products of a query with the keys of `N` blocks, as independent chains.
#[inline(always)]
fn score<L: Lanes, const N: usize>(
    shape: AttentionShape,
    kv: usize,
    query: &[f32],
    blocks: &[Arc<KvBlock>],
    scores: &mut [f32],
) {
    assert!(blocks.len() == N && scores.len() == N * BLOCK);
    let keys: [&[f32]; N] = std::array::from_fn(|b| &blocks[b].keys[shape.keys_at(kv)..][..query.len() * BLOCK]);
    // SAFETY: each of `keys` holds `query.len() * 16` values and `scores` holds `N * 16`, as the slice bounds and the
    // assertion ensure. The caller's kernel enables the instruction set of `L`.
    unsafe {
        let mut sums = [L::splat(0.0); N];
        for (i, &q) in query.iter().enumerate() {
            let q = L::splat(q);
            for (sum, keys) in sums.iter_mut().zip(keys) {
                *sum = L::fma(q, L::load(keys.as_ptr().add(i * BLOCK)), *sum);
            }
        }
        for (b, sum) in sums.into_iter().enumerate() {
            L::store(scores.as_mut_ptr().add(b * BLOCK), sum);
        }
    }
}

/// Computes `padded = scale * Σ weights[t] values[t]`.
#[inline(always)]
fn weigh<L: Lanes>(
    shape: AttentionShape,
    kv: usize,
    blocks: &[Arc<KvBlock>],
    weights: &[f32],
    scale: f32,
    padded: &mut [f32],
) {
    let width = shape.padded();
    assert!(padded.len() >= width);
    for column in (0..width).step_by(16) {
        // SAFETY: `values` holds 16 positions of `width` values, `t < 16` and `column + 16 <= width <= padded.len()`,
        // so every load and store is inside its slice. The caller's kernel enables the instruction set of `L`.
        unsafe {
            let mut sums = [L::splat(0.0); 4];
            for (block, weights) in blocks.iter().zip(weights.chunks(BLOCK)) {
                let values = &block.values[shape.values_at(kv)..][..width * BLOCK];
                for (t, &weight) in weights.iter().enumerate() {
                    sums[t % 4] =
                        L::fma(L::splat(weight), L::load(values.as_ptr().add(t * width + column)), sums[t % 4]);
                }
            }
            let sum = L::add(L::add(sums[0], sums[1]), L::add(sums[2], sums[3]));
            L::store(padded.as_mut_ptr().add(column), L::mul(sum, L::splat(scale)));
        }
    }
}
