//! Defines the construction of a decoder as data: every property in which families differ.
//!
//! Training, generation and other backends read an [`Architecture`] and never branch on the family's name. See
//! `docs/design/0021-model-families.md`.

use super::rope::Rope;

/// The construction of a decoder.
///
/// With r the residual stream, a layer computes `r += residual_scale · attention_out(attention(attention_in(r)))`,
/// then the same with the MLP; each of the four norms may be absent.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// Biases on the query, key and value projections.
    pub attention_bias: bool,
    /// Bias on the output projection of the attention.
    pub output_bias: bool,
    /// RMS norms on queries and keys before the rotation.
    pub qk_norm: QkNorm,
    /// The norms of a layer.
    pub norms: LayerNorms,
    /// Added to the weight of every norm: 1 where a file keeps its distance from 1 (Gemma), else 0.
    pub norm_offset: f64,
    /// Activation of the gate.
    pub activation: Activation,
    /// Multiplies the embeddings, not the language head that may share their matrix.
    pub embedding_scale: f64,
    /// Multiplies what attention and MLP add to the residual stream.
    pub residual_scale: f64,
    /// Multiplies the products of queries and keys; `None` = 1/√head_dim.
    pub attention_scale: Option<f64>,
    /// Divides the logits, before the temperature.
    pub logits_scaling: f64,
    /// Rotations that layers choose from. Layers without a window use the first.
    pub ropes: Vec<Rope>,
    /// One entry per layer.
    pub layers: Vec<LayerKind>,
}

/// Where queries and keys are normed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QkNorm {
    /// No norm.
    None,
    /// Every head by itself, with one weight per number of a head (Qwen3, Gemma 3).
    Head,
    /// All heads of queries together, and all of keys, with one weight per number (OLMo 2).
    Full,
}

/// Names of the norms of a layer, without `.weight`; `None` where a norm is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerNorms {
    /// Before the attention.
    pub attention_in: Option<&'static str>,
    /// After the attention, before its result joins the residual stream.
    pub attention_out: Option<&'static str>,
    /// Before the MLP.
    pub mlp_in: Option<&'static str>,
    /// After the MLP, before its result joins the residual stream.
    pub mlp_out: Option<&'static str>,
}

impl LayerNorms {
    /// Before attention and MLP (Llama).
    pub const BEFORE: Self = Self {
        attention_in: Some("input_layernorm"),
        attention_out: None,
        mlp_in: Some("post_attention_layernorm"),
        mlp_out: None,
    };
    /// After attention and MLP (OLMo 2).
    pub const AFTER: Self = Self {
        attention_in: None,
        attention_out: Some("post_attention_layernorm"),
        mlp_in: None,
        mlp_out: Some("post_feedforward_layernorm"),
    };
    /// On both sides of both (Gemma 3).
    pub const AROUND: Self = Self {
        attention_in: Some("input_layernorm"),
        attention_out: Some("post_attention_layernorm"),
        mlp_in: Some("pre_feedforward_layernorm"),
        mlp_out: Some("post_feedforward_layernorm"),
    };
    /// Returns the names of the existing norms.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.attention_in, self.attention_out, self.mlp_in, self.mlp_out].into_iter().flatten()
    }
}

/// The function of the MLP's gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x · sigmoid(x).
    Silu,
    /// GELU in its tanh form (Hendrycks and Gimpel, arXiv 1606.08415).
    GeluTanh,
}

impl Activation {
    /// Returns the name in `config.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Silu => "silu",
            Self::GeluTanh => "gelu_pytorch_tanh",
        }
    }
}

/// Window and rotation of a layer's attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerKind {
    /// Number of tokens that a token sees, including itself; `None` = all before it.
    pub window: Option<usize>,
    /// Index of the rotation; `None` = queries and keys carry no position (NoPE).
    pub rope: Option<usize>,
}

impl Architecture {
    /// Returns Llama's construction: norms before attention and MLP, SiLU, no biases, no windows.
    pub fn plain(layers: usize, rope: Rope) -> Self {
        Self {
            attention_bias: false,
            output_bias: false,
            qk_norm: QkNorm::None,
            norms: LayerNorms::BEFORE,
            norm_offset: 0.0,
            activation: Activation::Silu,
            embedding_scale: 1.0,
            residual_scale: 1.0,
            attention_scale: None,
            logits_scaling: 1.0,
            ropes: vec![rope],
            layers: vec![LayerKind { window: None, rope: Some(0) }; layers],
        }
    }
    /// Returns the longest sequence for which all rotations have angles; `None` = any.
    pub fn limit(&self) -> Option<usize> {
        self.ropes.iter().filter_map(Rope::limit).min()
    }
    /// Returns whether some layer has a window.
    pub fn has_windows(&self) -> bool {
        self.layers.iter().any(|l| l.window.is_some())
    }
}
