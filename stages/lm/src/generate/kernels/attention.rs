//! Causal attention of one query row over cached blocks of 16 positions.
#![expect(unsafe_code, reason = "vector loads from cache blocks; the bounds are asserted per block")]

use super::elementwise::exp_shifted_body;
use super::lanes::{Lanes, kernel};
use crate::generate::cache::{AttentionShape, BLOCK, Block};
use std::ops::Range;
use std::sync::Arc;

/// Buffers that are reused from row to row.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    scores: Vec<f32>,
    padded: Vec<f32>,
}

kernel! {
    /// `out[h] = softmax(query[h] · keys) values` over the positions of `seen`, for every head `h`.
    ///
    /// `query` (`heads * head_dim`, already scaled) and `out` (the same) are one row. Scores are one chain over the
    /// head's dimensions; values are four chains by position modulo 4, added in pairs.
    attention = attention_body(
        shape: AttentionShape,
        query: &[f32],
        blocks: &[Arc<Block>],
        seen: Range<usize>,
        scratch: &mut AttentionScratch,
        out: &mut [f32],
    )
}

#[inline(always)]
fn attention_body<L: Lanes>(
    shape: AttentionShape,
    query: &[f32],
    blocks: &[Arc<Block>],
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
    let group = shape.heads / shape.kv_heads;
    for head in 0..shape.heads {
        let kv = head / group;
        let query = &query[head * d..][..d];
        for (block, scores) in blocks.iter().zip(scores.chunks_exact_mut(BLOCK)) {
            let keys = &block.keys[shape.keys_at(kv)..][..d * BLOCK];
            // SAFETY: `keys` holds d rows of 16 values, `scores` 16.
            unsafe {
                let mut sum = L::splat(0.0);
                for (i, &q) in query.iter().enumerate() {
                    sum = L::fma(L::splat(q), L::load(keys.as_ptr().add(i * BLOCK)), sum);
                }
                L::store(scores.as_mut_ptr(), sum);
            }
        }
        let mut highest = f32::NEG_INFINITY;
        for &s in &scores[start..length] {
            highest = if s > highest { s } else { highest };
        }
        scores[..start].fill(f32::NEG_INFINITY);
        scores[length..].fill(f32::NEG_INFINITY);
        let total = exp_shifted_body::<L>(scores, highest);
        weigh::<L>(shape, kv, blocks, &scores[..length], 1.0 / total, padded);
        out[head * d..][..d].copy_from_slice(&padded[..d]);
    }
}

/// `padded = scale * Σ weights[t] values[t]`.
#[inline(always)]
fn weigh<L: Lanes>(
    shape: AttentionShape,
    kv: usize,
    blocks: &[Arc<Block>],
    weights: &[f32],
    scale: f32,
    padded: &mut [f32],
) {
    let width = shape.padded();
    assert!(padded.len() >= width);
    for column in (0..width).step_by(16) {
        // SAFETY: each block holds 16 positions of `width` values from `values_at(kv)`, `column + 16 <= width <=
        // padded.len()`.
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
