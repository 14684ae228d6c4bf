//! Defines the weights of a model as tensors, for the decoder, checkpoints and adapters.

use candle_core::Tensor;
use std::collections::BTreeMap;

/// Parameters by their Hugging Face names (`model.layers.0.self_attn.q_proj.weight`); iteration order is name order.
pub type Weights = BTreeMap<String, Tensor>;
