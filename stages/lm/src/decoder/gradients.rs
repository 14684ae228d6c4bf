//! Computes the gradients of a layer's vectors, in the second phase of the layer's backward, from the chunk state of
//! the first phase.
//!
//! The module `matrices` computes the gradients of the layer's matrices.

use super::state::{KernelSizes, PartialGradients, SequenceChunk};
use super::view::LayerView;
use crate::batch::SequenceBatch;
use crate::families::LayerNorms;
use crate::ops::KernelScalar;
use crate::ops::vector::add_into;
use std::collections::{BTreeMap, BTreeSet};

/// Sums the chunks' shares of one vector's gradient, in order.
pub(super) fn sum<T: KernelScalar>(
    chunks: &[SequenceChunk<T>],
    n: usize,
    part: impl Fn(&PartialGradients<T>) -> &[T],
) -> Vec<T> {
    let mut total = vec![T::ZERO; n];
    for chunk in chunks {
        add_into(&mut total, &part(&chunk.temporary.partial)[..n]);
    }
    total
}

/// Computes the gradient of the embeddings: adds the gradient of each row to the gradient of its token, in the order of
/// the batch.
pub(super) fn embeddings<T: KernelScalar>(
    sizes: KernelSizes,
    n: usize,
    batch: &SequenceBatch,
    chunks: &[SequenceChunk<T>],
) -> Vec<T> {
    let mut total = vec![T::ZERO; n];
    for chunk in chunks {
        let tokens = batch.sequences()[chunk.sequences.clone()].iter().flatten();
        for (row, token) in chunk.temporary.d_output.chunks_exact(sizes.hidden).zip(tokens) {
            let start = *token as usize * sizes.hidden;
            add_into(&mut total[start..start + sizes.hidden], row);
        }
    }
    total
}

/// Inputs of the gradients of a layer's parameters, in addition to the chunks.
pub(super) struct LayerGradients<'a, T: KernelScalar> {
    pub layer: usize,
    pub sizes: KernelSizes,
    pub norms: &'a LayerNorms,
    pub view: &'a LayerView<'a, T>,
    pub learned: &'a BTreeSet<String>,
    /// Whether an adapter's inputs had dropout.
    pub dropout: bool,
    /// Index of the layer's activations in a chunk.
    pub activation_index: usize,
}

impl<T: KernelScalar> LayerGradients<'_, T> {
    fn name(&self, part: &str) -> String {
        format!("model.layers.{}.{part}", self.layer)
    }

    /// Computes the gradients of norms and biases as sums of the chunks' shares, and stores them in `gradients`.
    pub fn vectors(&self, chunks: &[SequenceChunk<T>], gradients: &mut BTreeMap<String, Vec<T>>) {
        let KernelSizes { hidden, query, key, .. } = self.sizes;
        let names = self.norms;
        let mut put = |part: &str, values: &dyn Fn() -> Vec<T>| {
            let name = self.name(part);
            if self.learned.contains(&name) {
                gradients.insert(name, values());
            }
        };
        type Share<T> = fn(&PartialGradients<T>) -> &[T];
        let shares: [(Option<&str>, Share<T>); 4] = [
            (names.attention_in, |p| &p.attention_in),
            (names.attention_out, |p| &p.attention_out),
            (names.mlp_in, |p| &p.mlp_in),
            (names.mlp_out, |p| &p.mlp_out),
        ];
        for (name, share) in shares {
            if let Some(name) = name {
                put(&format!("{name}.weight"), &|| sum(chunks, hidden, share));
            }
        }
        if let (Some(q), Some(k)) = (&self.view.query_norm, &self.view.key_norm) {
            put("self_attn.q_norm.weight", &|| sum(chunks, q.len(), |p| &p.query_norm));
            put("self_attn.k_norm.weight", &|| sum(chunks, k.len(), |p| &p.key_norm));
        }
        if self.view.biases.is_some() {
            let all = sum(chunks, self.sizes.qkv(), |p| &p.bias);
            put("self_attn.q_proj.bias", &|| all[..query].to_vec());
            put("self_attn.k_proj.bias", &|| all[query..query + key].to_vec());
            put("self_attn.v_proj.bias", &|| all[query + key..].to_vec());
        }
        if self.view.output_bias.is_some() {
            put("self_attn.o_proj.bias", &|| sum(chunks, hidden, |p| &p.output_bias));
        }
    }
}
