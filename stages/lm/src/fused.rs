//! Lists the linear layers that some families keep in one tensor: queries, keys and values, and gate and up.
//!
//! The layers are separate in memory and fused in files and adapters.

use crate::config::ModelConfig;
use std::ops::Range;

/// A linear layer of a file that contains several of the decoder's, stacked by rows. Names are relative to the decoder
/// layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FusedLinear {
    /// Name of the fused layer.
    pub name: &'static str,
    /// Names of the parts and their rows, from the top.
    pub parts: Vec<(&'static str, usize)>,
}

impl FusedLinear {
    /// Returns the rows of all parts.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|(_, rows)| rows).sum()
    }
    /// Returns every part with its range of rows in the fused layer.
    pub fn ranges(&self) -> impl Iterator<Item = (&'static str, Range<usize>)> {
        self.parts.iter().scan(0, |first, (part, rows)| {
            let range = *first..*first + rows;
            *first = range.end;
            Some((*part, range))
        })
    }
}

/// Returns the fused layers of a decoder layer; empty if the family does not fuse layers.
pub fn wholes(config: &ModelConfig) -> Vec<FusedLinear> {
    if !config.family.fused {
        return Vec::new();
    }
    let (query, key, inner) = (config.query_width(), config.key_width(), config.intermediate_size);
    vec![
        FusedLinear {
            name: "self_attn.qkv_proj",
            parts: vec![("self_attn.q_proj", query), ("self_attn.k_proj", key), ("self_attn.v_proj", key)],
        },
        FusedLinear { name: "mlp.gate_up_proj", parts: vec![("mlp.gate_proj", inner), ("mlp.up_proj", inner)] },
    ]
}
