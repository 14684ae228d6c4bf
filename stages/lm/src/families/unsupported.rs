//! Lists common families that the decoder cannot express, each with the reason.

/// `model_type` and the missing feature of the decoder, sorted by name.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("bloom", "its positions are biases of the attention"),
    ("cohere", "its attention and MLP run side by side, under layer norms with a mean"),
    ("cohere2", "its attention and MLP run side by side, under layer norms with a mean"),
    ("deepseek_v2", "it routes tokens to experts and compresses keys and values"),
    ("deepseek_v3", "it routes tokens to experts and compresses keys and values"),
    ("falcon_mamba", "it is a state-space model without attention"),
    ("gemma2", "it caps logits by a hyperbolic tangent"),
    ("gemma3", "it reads images; its text part has model_type `gemma3_text`"),
    ("gemma3n", "it has embeddings for each layer and several residual streams"),
    ("gemma4", "it has embeddings for each layer, and layers that share keys and values"),
    ("gpt2", "its positions are learned, under layer norms with a mean"),
    ("gpt_neox", "its attention and MLP run side by side, under layer norms with a mean"),
    ("gpt_oss", "it routes tokens to experts"),
    ("granitemoe", "it routes tokens to experts"),
    ("granitemoehybrid", "it mixes attention with state-space layers"),
    ("jamba", "it mixes attention with state-space layers"),
    ("lfm2", "it mixes attention with short convolutions"),
    ("llama4", "it routes tokens to experts"),
    ("mamba", "it is a state-space model without attention"),
    ("mamba2", "it is a state-space model without attention"),
    ("ministral3", "it scales queries by their position"),
    ("mistral3", "it reads images"),
    ("mixtral", "it routes tokens to experts"),
    ("nemotron_h", "it mixes attention with state-space layers"),
    ("olmoe", "it routes tokens to experts"),
    ("phi", "its attention and MLP run side by side, under layer norms with a mean"),
    ("phi4_multimodal", "it reads images and sound"),
    ("phimoe", "it routes tokens to experts"),
    ("qwen2_5_vl", "it reads images"),
    ("qwen2_moe", "it routes tokens to experts"),
    ("qwen2_vl", "it reads images"),
    ("qwen3_5", "it mixes gated attention with layers of linear attention (gated delta rule)"),
    ("qwen3_5_moe", "it routes tokens to experts and has layers of linear attention"),
    ("qwen3_5_text", "it mixes gated attention with layers of linear attention (gated delta rule)"),
    ("qwen3_moe", "it routes tokens to experts"),
    ("qwen3_next", "it mixes gated attention with layers of linear attention (gated delta rule)"),
    ("qwen3_vl", "it reads images"),
];

/// Returns why the decoder cannot express a family, if known.
pub fn reason(model_type: &str) -> Option<&'static str> {
    UNSUPPORTED.iter().find(|(name, _)| *name == model_type).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_names_no_family_that_is_supported() {
        assert!(UNSUPPORTED.is_sorted_by(|a, b| a.0 < b.0));
        assert!(crate::families::FAMILIES.iter().all(|f| reason(f.name).is_none()));
    }
}
