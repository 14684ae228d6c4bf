//! Defines the cache of a sequence: its trait, and keys and values in blocks of 16 positions.
//!
//! Sequences share a block until one of them writes to it.

use std::sync::Arc;

/// Cache of a sequence in a sampler; the default is empty.
pub trait Cache: Default {
    /// Returns the cache of the first `length` tokens, for a fork.
    fn prefix(&self, length: usize) -> Self;
}

/// Positions of a block.
pub const BLOCK: usize = 16;

/// Sizes of the attention of a layer, and the layer's index.
#[derive(Debug, Clone, Copy)]
pub struct AttentionShape {
    /// Layer index from 0, which determines the offset of its keys and values in a block.
    pub layer: usize,
    /// Query heads.
    pub heads: usize,
    /// Key-value heads; divides `heads`.
    pub kv_heads: usize,
    /// Numbers per head, before padding.
    pub head_dim: usize,
}

impl AttentionShape {
    /// Returns the values of one position and head in the cache: `head_dim` rounded up to whole vectors.
    pub fn padded(&self) -> usize {
        self.head_dim.next_multiple_of(16)
    }
    /// Returns the offset of the keys `[head_dim][16]` of a key-value head in a block.
    pub fn keys_at(&self, kv: usize) -> usize {
        (self.layer * self.kv_heads + kv) * self.head_dim * BLOCK
    }
    /// Returns the offset of the values `[16][padded]` of a key-value head in a block.
    pub fn values_at(&self, kv: usize) -> usize {
        (self.layer * self.kv_heads + kv) * self.padded() * BLOCK
    }
}

/// Keys and values of 16 positions, all layers.
#[derive(Debug, Clone)]
pub struct KvBlock {
    /// `[layer][kv head][head_dim][16]`: 16 scores at once.
    pub keys: Vec<f32>,
    /// `[layer][kv head][16][padded head_dim]`.
    pub values: Vec<f32>,
}

/// The cache of one sequence. Cloning shares all blocks; a write to a shared block copies it first.
#[derive(Debug, Clone, Default)]
pub struct KvBlocks(Vec<Arc<KvBlock>>);

impl Cache for KvBlocks {
    /// Returns a cache that shares the blocks of the first `length` positions.
    fn prefix(&self, length: usize) -> Self {
        Self(self.0[..length.div_ceil(BLOCK)].to_vec())
    }
}

impl KvBlocks {
    /// Returns the bytes of the blocks of `length` positions.
    pub fn bytes(length: usize, layers: usize, shape: AttentionShape) -> u64 {
        let numbers = layers * shape.kv_heads * BLOCK * (shape.head_dim + shape.padded());
        (length.div_ceil(BLOCK) * numbers * size_of::<f32>()) as u64
    }
    /// Adds empty blocks until the cache has room for `length` positions.
    pub fn reserve(&mut self, length: usize, layers: usize, shape: AttentionShape) {
        while self.0.len() * BLOCK < length {
            let heads = layers * shape.kv_heads * BLOCK;
            self.0.push(Arc::new(KvBlock {
                keys: vec![0.0; heads * shape.head_dim],
                values: vec![0.0; heads * shape.padded()],
            }));
        }
    }
    /// Stores one position of one layer: `kv_heads * head_dim` keys and values.
    pub fn write(&mut self, position: usize, shape: AttentionShape, keys: &[f32], values: &[f32]) {
        let block = Arc::make_mut(&mut self.0[position / BLOCK]);
        let slot = position % BLOCK;
        let d = shape.head_dim;
        for kv in 0..shape.kv_heads {
            let target = &mut block.keys[shape.keys_at(kv)..][..d * BLOCK];
            for (i, &key) in keys[kv * d..][..d].iter().enumerate() {
                target[i * BLOCK + slot] = key;
            }
            let at = shape.values_at(kv) + slot * shape.padded();
            block.values[at..at + d].copy_from_slice(&values[kv * d..][..d]);
        }
    }
    /// Returns the blocks in order of position.
    pub fn as_slice(&self) -> &[Arc<KvBlock>] {
        &self.0
    }
}
