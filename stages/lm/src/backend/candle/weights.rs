//! One layer's parameters as tensors of the device.

use crate::config::ModelConfig;
use candle_core::{DType, Result, Tensor};

/// Gives a parameter by its Hugging Face name, in float32.
pub type Find<'a> = &'a dyn Fn(&str) -> Result<Tensor>;

/// `x·Wᵀ + b`, with W as `[out, in]`.
pub struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// With a weight of type `dtype`, which products are made in.
    fn of(find: Find<'_>, name: &str, bias: bool, dtype: DType) -> Result<Self> {
        let bias = if bias { Some(find(&format!("{name}.bias"))?) } else { None };
        Ok(Self { weight: find(&format!("{name}.weight"))?.to_dtype(dtype)?, bias })
    }
    /// Float32 `[rows, in]` to float32 `[rows, out]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = x.to_dtype(self.weight.dtype())?.matmul(&self.weight.t()?)?.to_dtype(DType::F32)?;
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }
}

/// One layer. The norms stand where [`crate::families::LayerNorms`] says.
pub struct LayerWeights {
    pub attention_in: Option<Tensor>,
    pub query: Linear,
    pub key: Linear,
    pub value: Linear,
    pub query_norm: Option<Tensor>,
    pub key_norm: Option<Tensor>,
    pub output: Linear,
    pub attention_out: Option<Tensor>,
    pub mlp_in: Option<Tensor>,
    pub gate: Linear,
    pub up: Linear,
    pub down: Linear,
    pub mlp_out: Option<Tensor>,
}

impl LayerWeights {
    /// Layer `index` of a model, with products in `dtype`.
    pub fn of(config: &ModelConfig, index: usize, find: Find<'_>, dtype: DType) -> Result<Self> {
        let architecture = &config.architecture;
        let name = |part: &str| format!("{}{part}", prefix(index));
        let linear = |part: &str, bias: bool| Linear::of(find, &name(part), bias, dtype);
        let norm = |part: Option<&str>| part.map(|part| norm(config, find, &name(part))).transpose();
        let head_norm = |part| norm(config.qk_norm_widths().map(|_| part));
        Ok(Self {
            attention_in: norm(architecture.norms.attention_in)?,
            query: linear("self_attn.q_proj", architecture.attention_bias)?,
            key: linear("self_attn.k_proj", architecture.attention_bias)?,
            value: linear("self_attn.v_proj", architecture.attention_bias)?,
            query_norm: head_norm("self_attn.q_norm")?,
            key_norm: head_norm("self_attn.k_norm")?,
            output: linear("self_attn.o_proj", architecture.output_bias)?,
            attention_out: norm(architecture.norms.attention_out)?,
            mlp_in: norm(architecture.norms.mlp_in)?,
            gate: linear("mlp.gate_proj", false)?,
            up: linear("mlp.up_proj", false)?,
            down: linear("mlp.down_proj", false)?,
            mlp_out: norm(architecture.norms.mlp_out)?,
        })
    }
}

/// What the norm `name` multiplies by.
pub fn norm(config: &ModelConfig, find: Find<'_>, name: &str) -> Result<Tensor> {
    let (weight, offset) = (find(&format!("{name}.weight"))?, config.architecture.norm_offset);
    if offset == 0.0 { Ok(weight) } else { weight + offset }
}

/// What the names of a layer's parameters begin with.
pub fn prefix(index: usize) -> String {
    format!("model.layers.{index}.")
}
