//! Linear layers that some families keep in one tensor: queries, keys and values, and gate and up. Here they are apart
//! in memory; files and adapters have the whole.

use crate::config::ModelConfig;
use std::ops::Range;

/// A linear layer of a file that holds several of the decoder's, one below the other. Names are those below a decoder
/// layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// Its own name.
    pub name: &'static str,
    /// Names of the parts and their rows, from the top.
    pub parts: Vec<(&'static str, usize)>,
}

impl Whole {
    /// Rows of all parts.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|(_, rows)| rows).sum()
    }
    /// Every part with the rows that it has in the whole.
    pub fn ranges(&self) -> impl Iterator<Item = (&'static str, Range<usize>)> {
        self.parts.iter().scan(0, |first, (part, rows)| {
            let range = *first..*first + rows;
            *first = range.end;
            Some((*part, range))
        })
    }
}

/// The wholes of every decoder layer; none if the family keeps its layers apart.
pub fn wholes(config: &ModelConfig) -> Vec<Whole> {
    if !config.family.fused {
        return Vec::new();
    }
    let (query, key, inner) = (config.query_width(), config.key_width(), config.intermediate_size);
    vec![
        Whole {
            name: "self_attn.qkv_proj",
            parts: vec![("self_attn.q_proj", query), ("self_attn.k_proj", key), ("self_attn.v_proj", key)],
        },
        Whole { name: "mlp.gate_up_proj", parts: vec![("mlp.gate_proj", inner), ("mlp.up_proj", inner)] },
    ]
}
