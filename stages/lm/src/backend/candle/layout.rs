//! Arranges the rows of a batch on the device.
//!
//! Attention reads groups of sequences of similar lengths, padded to the longest. All other operations read the rows
//! without padding.

use super::layer::{Masks, attention, by_heads};
use crate::batch::SequenceBatch;
use crate::config::ModelConfig;
use candle_core::{DType, Device, Result, Tensor};
use std::ops::Range;

/// Maximum ratio of the longest to the shortest sequence in a group.
const SPREAD: f64 = 1.25;
/// Maximum attention scores of a group, over sequences and heads.
const SCORES: usize = 1 << 26;

/// A batch on the device.
pub struct BatchLayout {
    /// `[rows]`, the token of each row.
    pub tokens: Tensor,
    /// `[rows]`, the position of each row in its sequence.
    pub positions: Tensor,
    pub longest: usize,
    /// Rows of each sequence.
    pub ranges: Vec<Range<usize>>,
    groups: Vec<AttentionGroup>,
    /// `[rows]`: index of each row in the groups' results.
    back: Tensor,
}

/// Sequences whose attention is computed together, padded to the longest.
struct AttentionGroup {
    sequences: usize,
    /// `[sequences · length]`: the row of each token; padding repeats a sequence's last row.
    rows: Tensor,
    /// `[1, 1, 1, length, length]` each: 0 for the tokens of the window, else -∞.
    masks: Masks,
}

impl BatchLayout {
    pub fn new(batch: &SequenceBatch, config: &ModelConfig, device: &Device) -> Result<Self> {
        let tokens: Vec<u32> = batch.sequences().concat();
        let positions: Vec<u32> = batch.sequences().iter().flat_map(|s| 0..s.len() as u32).collect();
        let (mut groups, mut back, mut before) = (Vec::new(), vec![0_u32; batch.rows()], 0);
        for members in grouped(batch, config.num_attention_heads) {
            let length = batch.range(members[0]).len();
            let mut rows = Vec::with_capacity(members.len() * length);
            for &member in &members {
                let range = batch.range(member);
                for i in 0..length {
                    if i < range.len() {
                        back[range.start + i] = (before + rows.len()) as u32;
                    }
                    rows.push((range.start + i.min(range.len() - 1)) as u32);
                }
            }
            before += rows.len();
            let masks = Masks::new(config, |window| causal(length, window, device))?;
            groups.push(AttentionGroup { sequences: members.len(), rows: Tensor::new(rows, device)?, masks });
        }
        Ok(Self {
            tokens: Tensor::new(tokens, device)?,
            positions: Tensor::new(positions, device)?,
            longest: batch.longest(),
            ranges: (0..batch.sequences().len()).map(|i| batch.range(i)).collect(),
            groups,
            back: Tensor::new(back, device)?,
        })
    }
    /// Computes attention of every sequence over itself, in `dtype`.
    pub fn attend(&self, window: Option<usize>, [q, k, v]: [&Tensor; 3], dtype: DType) -> Result<Tensor> {
        let kv = k.dim(1)?;
        let of = |group: &AttentionGroup| {
            let pick = |x: &Tensor| by_heads(&x.index_select(&group.rows, 0)?, group.sequences, kv, dtype);
            attention(&pick(q)?, &pick(k)?, &pick(v)?, group.masks.of(window)?)
        };
        let parts: Vec<Tensor> = self.groups.iter().map(of).collect::<Result<_>>()?;
        Tensor::cat(&parts, 0)?.index_select(&self.back, 0)
    }
}

/// Groups sequences by falling length; a group ends where its padding or its scores exceed the limits.
fn grouped(batch: &SequenceBatch, heads: usize) -> Vec<Vec<usize>> {
    let length = |i: usize| batch.range(i).len();
    let mut order: Vec<usize> = (0..batch.sequences().len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(length(i)));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for i in order {
        let fits = |group: &&mut Vec<usize>| {
            let longest = length(group[0]);
            longest as f64 <= SPREAD * length(i) as f64 && (group.len() + 1) * heads * longest * longest <= SCORES
        };
        match groups.last_mut().filter(fits) {
            Some(group) => group.push(i),
            None => groups.push(vec![i]),
        }
    }
    groups
}

fn causal(length: usize, window: Option<usize>, device: &Device) -> Result<Tensor> {
    let sees = |row: usize, key: usize| key <= row && window.is_none_or(|window| row < key + window);
    let allowed = |i: usize| if sees(i / length, i % length) { 0.0 } else { f32::NEG_INFINITY };
    Tensor::from_vec((0..length * length).map(allowed).collect::<Vec<f32>>(), (1, 1, 1, length, length), device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hold_similar_lengths_and_every_sequence_once() {
        let batch = SequenceBatch::new([10, 100, 9, 90, 1].map(|n| vec![0; n]).to_vec()).unwrap();
        assert_eq!(grouped(&batch, 4), [vec![1, 3], vec![0, 2], vec![4]]);
        let long = SequenceBatch::new(vec![vec![0; 4096]; 3]).unwrap();
        assert_eq!(grouped(&long, 2), [vec![0, 1], vec![2]], "2 · 2 · 4096² scores are 2²⁶");
    }

    #[test]
    fn rows_are_restored_from_their_groups() {
        let batch = SequenceBatch::new(vec![vec![5], vec![6, 7, 8]]).unwrap();
        let layout = BatchLayout::new(&batch, &ModelConfig::llama(9, 8, 8, 1, 1, 1), &Device::Cpu).unwrap();
        assert_eq!(layout.positions.to_vec1::<u32>().unwrap(), [0, 0, 1, 2]);
        assert_eq!(layout.back.to_vec1::<u32>().unwrap(), [3, 0, 1, 2], "the longer sequence comes first");
    }
}
