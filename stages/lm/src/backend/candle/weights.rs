//! Reads one layer's parameters, and those of its adapter, as tensors of the device.

use crate::adapter::{AdapterRows, DOWN, UP, adapter_rows};
use crate::config::ModelConfig;
use crate::decoder::{Dropout, LoraScale};
use candle_core::{DType, Device, Result, Tensor};
use std::ops::Range;

/// Source of the layers' parameters.
pub struct LayerSource<'a> {
    pub config: &'a ModelConfig,
    /// A parameter by its Hugging Face name, or `None` if it is absent.
    pub find: &'a dyn Fn(&str) -> Result<Option<Tensor>>,
    /// The type of products.
    pub dtype: DType,
    /// Low-rank options of the adapter, if any.
    pub lora: Option<LoraScale>,
    /// Dropout of a pass that trains the adapter.
    pub dropout: Option<DropoutContext<'a>>,
}

/// Dropout of an adapter's inputs in one pass.
#[derive(Clone, Copy)]
pub struct DropoutContext<'a> {
    pub dropout: &'a Dropout,
    /// Rows of each sequence of the batch.
    pub ranges: &'a [Range<usize>],
    pub device: &'a Device,
}

impl DropoutContext<'_> {
    /// Returns `[rows, width]`: 0 for the dropped inputs of an adapted layer, else the factor of the kept ones.
    fn mask(&self, part: &str, layer: usize, width: usize) -> Result<Tensor> {
        let rows = self.ranges.last().map_or(0, |range| range.end);
        let mut values = vec![1.0f32; rows * width];
        self.dropout.apply(part, (layer, 0), self.ranges, width, &mut values);
        Tensor::from_vec(values, (rows, width), self.device)
    }
}

impl LayerSource<'_> {
    /// Returns the parameter `name`. Errors: an absent one.
    pub fn need(&self, name: &str) -> Result<Tensor> {
        match (self.find)(name)? {
            Some(tensor) => Ok(tensor),
            None => candle_core::bail!("the model lacks `{name}`"),
        }
    }
    /// Returns the weight of the norm `name`, with the family's offset.
    pub fn norm(&self, name: &str) -> Result<Tensor> {
        let (weight, offset) = (self.need(&format!("{name}.weight"))?, self.config.architecture.norm_offset);
        if offset == 0.0 { Ok(weight) } else { weight + offset }
    }
    /// Returns the linear layer `part` of a decoder layer.
    fn linear(&self, layer: usize, part: &'static str, bias: bool) -> Result<CandleLinear> {
        let name = format!("{}{part}", prefix(layer));
        let bias = if bias { Some(self.need(&format!("{name}.bias"))?) } else { None };
        let weight = self.need(&format!("{name}.weight"))?.to_dtype(self.dtype)?;
        let low = self.lora_of(layer, part, weight.dims2()?)?;
        Ok(CandleLinear { weight, bias, lora: low })
    }
    /// Returns the adapter's factors for a linear layer whose weight has this shape, or `None` if the layer is not
    /// adapted.
    fn lora_of(
        &self,
        layer: usize,
        part: &'static str,
        (outputs, inputs): (usize, usize),
    ) -> Result<Option<LoraTensors>> {
        let Some(LoraScale { scale, .. }) = self.lora else { return Ok(None) };
        let AdapterRows { layer: fused, rows, .. } = adapter_rows(self.config, part, outputs);
        let name = |factor: &str| format!("{}{fused}{factor}", prefix(layer));
        let Some((down, up)) = (self.find)(&name(DOWN))?.zip((self.find)(&name(UP))?) else { return Ok(None) };
        let up = up.narrow(0, rows.start, rows.len())?.to_dtype(self.dtype)?;
        let mask = self.dropout.map(|drops| drops.mask(fused, layer, inputs)).transpose()?;
        Ok(Some(LoraTensors { down: down.to_dtype(self.dtype)?, up, scale, mask }))
    }
}

/// `x·Wᵀ + b + scale · dropout(x)·Aᵀ·Bᵀ`, with W as `[out, in]`.
pub struct CandleLinear {
    weight: Tensor,
    bias: Option<Tensor>,
    lora: Option<LoraTensors>,
}

/// The factors of an adapter.
struct LoraTensors {
    /// A, `[rank, in]`.
    down: Tensor,
    /// B, `[out, rank]`.
    up: Tensor,
    scale: f64,
    /// See [`DropoutContext::mask`].
    mask: Option<Tensor>,
}

impl CandleLinear {
    /// Maps float32 `[rows, in]` to float32 `[rows, out]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = x.to_dtype(self.weight.dtype())?.matmul(&self.weight.t()?)?.to_dtype(DType::F32)?;
        let y = match &self.lora {
            Some(low) => (y + low.forward(x)?)?,
            None => y,
        };
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }
}

impl LoraTensors {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = match &self.mask {
            Some(mask) => (x * mask)?,
            None => x.clone(),
        };
        let inner = (x.to_dtype(self.down.dtype())?.matmul(&self.down.t()?)? * self.scale)?;
        inner.matmul(&self.up.t()?)?.to_dtype(DType::F32)
    }
}

/// One layer, with the norms of [`crate::families::LayerNorms`].
pub struct LayerWeights {
    pub attention_in: Option<Tensor>,
    pub query: CandleLinear,
    pub key: CandleLinear,
    pub value: CandleLinear,
    pub query_norm: Option<Tensor>,
    pub key_norm: Option<Tensor>,
    pub output: CandleLinear,
    pub attention_out: Option<Tensor>,
    pub mlp_in: Option<Tensor>,
    pub gate: CandleLinear,
    pub up: CandleLinear,
    pub down: CandleLinear,
    pub mlp_out: Option<Tensor>,
}

const QUERY: &str = "self_attn.q_proj";
const KEY: &str = "self_attn.k_proj";
const VALUE: &str = "self_attn.v_proj";
const OUTPUT: &str = "self_attn.o_proj";
const GATE_PART: &str = "mlp.gate_proj";
const UP_PART: &str = "mlp.up_proj";
const DOWN_PART: &str = "mlp.down_proj";

impl LayerWeights {
    /// Reads layer `index` of a model.
    pub fn of(source: &LayerSource<'_>, index: usize) -> Result<Self> {
        let architecture = &source.config.architecture;
        let linear = |part, bias| source.linear(index, part, bias);
        let norm = |part: Option<&str>| part.map(|part| source.norm(&format!("{}{part}", prefix(index)))).transpose();
        let head_norm = |part| norm(source.config.qk_norm_widths().map(|_| part));
        Ok(Self {
            attention_in: norm(architecture.norms.attention_in)?,
            query: linear(QUERY, architecture.attention_bias)?,
            key: linear(KEY, architecture.attention_bias)?,
            value: linear(VALUE, architecture.attention_bias)?,
            query_norm: head_norm("self_attn.q_norm")?,
            key_norm: head_norm("self_attn.k_norm")?,
            output: linear(OUTPUT, architecture.output_bias)?,
            attention_out: norm(architecture.norms.attention_out)?,
            mlp_in: norm(architecture.norms.mlp_in)?,
            gate: linear(GATE_PART, false)?,
            up: linear(UP_PART, false)?,
            down: linear(DOWN_PART, false)?,
            mlp_out: norm(architecture.norms.mlp_out)?,
        })
    }
    /// Replaces the adapter's factors in every linear layer by those of `source`.
    pub fn set_adapter(&mut self, source: &LayerSource<'_>, index: usize) -> Result<()> {
        let linears = [
            (QUERY, &mut self.query),
            (KEY, &mut self.key),
            (VALUE, &mut self.value),
            (OUTPUT, &mut self.output),
            (GATE_PART, &mut self.gate),
            (UP_PART, &mut self.up),
            (DOWN_PART, &mut self.down),
        ];
        for (part, linear) in linears {
            linear.lora = source.lora_of(index, part, linear.weight.dims2()?)?;
        }
        Ok(())
    }
}

/// Returns the prefix of a layer's parameter names.
pub fn prefix(index: usize) -> String {
    format!("model.layers.{index}.")
}
