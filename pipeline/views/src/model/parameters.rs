//! Counts the parameters of a model by part and by type, from the headers of its safetensors files.

use crate::tensors::{StoredTensor, StoredTensors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Part of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelPart {
    /// Embeddings of tokens and positions.
    Embeddings,
    /// Projections of attention.
    Attention,
    /// Projections of the MLPs.
    Mlp,
    /// Weights of normalizations.
    Norms,
    /// Output head, or head with scores.
    Head,
    /// Anything else.
    Other,
}

impl ModelPart {
    /// Returns the part that a tensor belongs to, by its name in Hugging Face's convention.
    pub fn of(tensor: &str) -> Self {
        let name = tensor.to_lowercase();
        let has = |words: &[&str]| name.split('.').any(|part| words.iter().any(|word| part.contains(word)));
        // The name of a norm may contain that of its neighbor: `post_attention_layernorm`.
        if has(&["norm"]) || name.split('.').any(|part| part == "ln" || part.starts_with("ln_")) {
            Self::Norms
        } else if has(&["embed", "wte", "wpe"]) {
            Self::Embeddings
        } else if has(&["attn", "attention"]) {
            Self::Attention
        } else if has(&["mlp", "feed_forward", "ffn", "expert"]) {
            Self::Mlp
        } else if has(&["lm_head", "score", "classifier"]) {
            Self::Head
        } else {
            Self::Other
        }
    }
    /// Returns the name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embeddings => "embeddings",
            Self::Attention => "attention",
            Self::Mlp => "mlp",
            Self::Norms => "norms",
            Self::Head => "head",
            Self::Other => "other",
        }
    }
}

/// Sums over tensors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TensorSum {
    /// Number of tensors.
    pub tensors: u64,
    /// Number of their elements.
    pub parameters: u64,
    /// Number of their bytes.
    pub bytes: u64,
}

impl TensorSum {
    fn add(&mut self, tensor: &StoredTensor) {
        self.tensors += 1;
        self.parameters += tensor.shape.iter().map(|length| *length as u64).product::<u64>();
        self.bytes += tensor.bytes();
    }
}

/// Sums of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartSum {
    /// Part of the model.
    pub part: ModelPart,
    /// Tensors of the part.
    #[serde(flatten)]
    pub sum: TensorSum,
}

/// Sums of a type of elements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TypeSum {
    /// Type of the elements, as `BF16`.
    pub dtype: String,
    /// Tensors of this type.
    #[serde(flatten)]
    pub sum: TensorSum,
}

/// Sums of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParameterCounts {
    /// All tensors.
    #[serde(flatten)]
    pub total: TensorSum,
    /// Parts that have tensors.
    pub parts: Vec<PartSum>,
    /// Types that occur, by name.
    pub dtypes: Vec<TypeSum>,
}

impl ParameterCounts {
    /// Counts tensors.
    pub fn of(tensors: &StoredTensors) -> Self {
        let mut total = TensorSum::default();
        let mut parts: BTreeMap<ModelPart, TensorSum> = BTreeMap::new();
        let mut dtypes: BTreeMap<String, TensorSum> = BTreeMap::new();
        for (name, tensor) in &tensors.by_name {
            total.add(tensor);
            parts.entry(ModelPart::of(name)).or_default().add(tensor);
            dtypes.entry(format!("{:?}", tensor.dtype)).or_default().add(tensor);
        }
        Self {
            total,
            parts: parts.into_iter().map(|(part, sum)| PartSum { part, sum }).collect(),
            dtypes: dtypes.into_iter().map(|(dtype, sum)| TypeSum { dtype, sum }).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_from_names() {
        use ModelPart::{Attention, Embeddings, Head, Mlp, Norms, Other};
        let cases = [
            ("model.embed_tokens.weight", Embeddings),
            ("transformer.wte.weight", Embeddings),
            ("model.layers.0.self_attn.q_proj.weight", Attention),
            ("model.layers.0.self_attn.q_norm.weight", Norms),
            ("model.layers.1.post_attention_layernorm.weight", Norms),
            ("transformer.h.0.ln_1.weight", Norms),
            ("model.layers.1.mlp.gate_up_proj.weight", Mlp),
            ("base_model.model.model.layers.0.mlp.up_proj.lora_A.weight", Mlp),
            ("model.norm.weight", Norms),
            ("lm_head.weight", Head),
            ("score.bias", Head),
            ("steps", Other),
        ];
        for (name, part) in cases {
            assert_eq!(ModelPart::of(name), part, "{name}");
        }
    }

    #[test]
    fn names_of_parts_are_those_of_json() {
        for part in [ModelPart::Embeddings, ModelPart::Mlp, ModelPart::Other] {
            assert_eq!(serde_json::to_value(part).unwrap(), part.name());
        }
    }
}
