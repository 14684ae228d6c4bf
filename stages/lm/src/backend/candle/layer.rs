//! Computes a layer of the decoder with operations that all have a backward.
//!
//! candle's fused norm, rotation and softmax have no backward and do not report its absence: of a model trained through
//! them, little but the last layer changes. Rows are tokens, one after another without padding, and the residual stream
//! is float32.

use super::weights::{CandleLinear, LayerWeights};
use crate::config::ModelConfig;
use crate::families::{Activation, QkNorm, Rope};
use candle_core::{D, DType, Device, Result, Tensor};
use std::collections::BTreeSet;

/// Attention: from queries, keys and values of all rows, `[rows, heads, head_dim]`, rotated and scaled, to its output,
/// `[rows, heads · head_dim]` in float32.
pub type AttentionFn<'a> = &'a mut dyn FnMut(Tensor, Tensor, Tensor) -> Result<Tensor>;

/// Computes layer `index` of the decoder: takes and returns the residual stream `[rows, hidden]`. `angles` are the
/// rotation angles of the rows.
pub fn forward(
    config: &ModelConfig,
    index: usize,
    w: &LayerWeights,
    x: &Tensor,
    angles: &RowAngles,
    attend: AttentionFn<'_>,
) -> Result<Tensor> {
    let a = &config.architecture;
    let eps = config.rms_norm_eps;
    let maybe = |x: &Tensor, norm: &Option<Tensor>| match norm {
        Some(weight) => rms_norm(x, weight, eps),
        None => Ok(x.clone()),
    };
    let join = |x: &Tensor, branch: Tensor, norm| x + scaled(maybe(&branch, norm)?, a.residual_scale)?;
    let input = maybe(x, &w.attention_in)?;
    let q = heads(config, &w.query, w.query_norm.as_ref(), &input)?;
    let k = heads(config, &w.key, w.key_norm.as_ref(), &input)?;
    let v = heads(config, &w.value, None, &input)?;
    let (q, k) = match a.layers[index].rope {
        Some(rope) => (angles.rotate(rope, &q)?, angles.rotate(rope, &k)?),
        None => (q, k),
    };
    let scale = a.attention_scale.unwrap_or(1.0 / (config.head_dim as f64).sqrt());
    let x = join(x, w.output.forward(&attend((q * scale)?, k, v)?)?, &w.attention_out)?;
    let input = maybe(&x, &w.mlp_in)?;
    let gate = w.gate.forward(&input)?;
    let gate = match a.activation {
        Activation::Silu => gate.silu()?,
        Activation::GeluTanh => gelu_tanh(&gate)?,
    };
    join(&x, w.down.forward(&(gate * w.up.forward(&input)?)?)?, &w.mlp_out)
}

/// Returns x · factor.
pub fn scaled(x: Tensor, factor: f64) -> Result<Tensor> {
    if factor == 1.0 { Ok(x) } else { x * factor }
}

/// Returns a projection as `[rows, heads, head_dim]`, normed by head or over all heads.
fn heads(config: &ModelConfig, linear: &CandleLinear, norm: Option<&Tensor>, x: &Tensor) -> Result<Tensor> {
    let (y, eps) = (linear.forward(x)?, config.rms_norm_eps);
    let (rows, width) = y.dims2()?;
    let shape = (rows, width / config.head_dim, config.head_dim);
    match norm {
        None => y.reshape(shape),
        Some(weight) if config.architecture.qk_norm == QkNorm::Full => rms_norm(&y, weight, eps)?.reshape(shape),
        Some(weight) => rms_norm(&y.reshape(shape)?, weight, eps),
    }
}

/// Returns GELU in its tanh form, composed of operations with an exact backward; the backward of candle's GELU has
/// rounded constants.
fn gelu_tanh(x: &Tensor) -> Result<Tensor> {
    let inner = ((x + (x.sqr()?.mul(x)? * 0.044715)?)? * (2.0 / std::f64::consts::PI).sqrt())?;
    (x * 0.5)?.mul(&(inner.tanh()? + 1.0)?)
}

/// Returns the RMS norm over the last dimension (Zhang and Sennrich, arXiv 1910.07467).
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    let root = (x.sqr()?.mean_keepdim(D::Minus1)? + eps)?.sqrt()?;
    x.broadcast_div(&root)?.broadcast_mul(weight)
}

/// Computes attention of `[batch, kv heads, group · queries, dim]` over keys and values `[batch, kv heads, keys, dim]`;
/// query heads that share a key head are adjacent. `mask` (0 or -∞) has the shape `[batch or 1, 1, 1, queries, keys]`.
/// Returns `[batch · queries, heads · dim]` in float32.
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let (batch, kv, rows, dim) = q.dims4()?;
    let (queries, keys) = (mask.dim(3)?, mask.dim(4)?);
    let group = rows / queries;
    let scores = q.matmul(&k.transpose(2, 3)?)?.to_dtype(DType::F32)?;
    let scores = scores.reshape((batch, kv, group, queries, keys))?.broadcast_add(mask)?;
    let top = scores.max_keepdim(D::Minus1)?.detach();
    let masses = scores.broadcast_sub(&top)?.exp()?;
    let shares = masses.broadcast_div(&masses.sum_keepdim(D::Minus1)?)?;
    let shares = shares.to_dtype(v.dtype())?.reshape((batch, kv, rows, keys))?;
    let out = shares.matmul(v)?.reshape((batch, kv, group, queries, dim))?;
    out.permute((0, 3, 1, 2, 4))?.contiguous()?.reshape((batch * queries, kv * group * dim))?.to_dtype(DType::F32)
}

/// Reshapes `[batch · length, heads, dim]` to `[batch, kv heads, heads / kv heads · length, dim]`, as [`attention`]
/// takes queries (and, with as many heads as key heads, keys and values).
pub fn by_heads(x: &Tensor, batch: usize, kv: usize, dtype: DType) -> Result<Tensor> {
    let (rows, heads, dim) = x.dims3()?;
    let (length, group) = (rows / batch, heads / kv);
    let x = x.to_dtype(dtype)?.reshape((batch, length, kv, group, dim))?;
    x.permute((0, 2, 3, 1, 4))?.contiguous()?.reshape((batch, kv, group * length, dim))
}

/// Cosines and sines of all positions so far, `[positions, half]` for each rotation of the architecture.
pub struct RotaryTables {
    tables: Vec<(Tensor, Tensor)>,
    ropes: Vec<Rope>,
    head_dim: usize,
    device: Device,
}

impl RotaryTables {
    pub fn new(config: &ModelConfig, device: &Device) -> Self {
        let ropes = config.architecture.ropes.clone();
        Self { tables: Vec::new(), ropes, head_dim: config.head_dim, device: device.clone() }
    }
    /// Returns the angles of rows at these positions, `[rows]`, all below `length`. Extends the tables to `length` if
    /// necessary.
    pub fn at(&mut self, positions: &Tensor, length: usize) -> Result<RowAngles> {
        if self.tables.first().is_none_or(|(cos, _)| cos.dims()[0] < length) {
            let tables = self.ropes.iter().map(|rope| self.table(rope, length.next_power_of_two()));
            self.tables = tables.collect::<Result<_>>()?;
        }
        let pick = |table: &Tensor| table.index_select(positions, 0)?.unsqueeze(1);
        let rows = self.tables.iter().map(|(cos, sin)| Ok((pick(cos)?, pick(sin)?)));
        Ok(RowAngles(rows.collect::<Result<_>>()?))
    }

    fn table(&self, rope: &Rope, length: usize) -> Result<(Tensor, Tensor)> {
        let frequencies = rope.frequencies(self.head_dim);
        let (half, factor) = (frequencies.len(), rope.attention_factor());
        let table = |of: fn(f64) -> f64| {
            let value = |i: usize| (of((i / half) as f64 * frequencies[i % half]) * factor) as f32;
            Tensor::from_vec((0..length * half).map(value).collect::<Vec<f32>>(), (length, half), &self.device)
        };
        Ok((table(f64::cos)?, table(f64::sin)?))
    }
}

/// Cosines and sines of rows, `[rows, 1, half]` for each rotation.
pub struct RowAngles(Vec<(Tensor, Tensor)>);

impl RowAngles {
    /// Rotates `[rows, heads, dim]`: of the first `2 · half` numbers of a head, number i with number i + half (Su et
    /// al., arXiv 2104.09864).
    fn rotate(&self, rope: usize, x: &Tensor) -> Result<Tensor> {
        let (cos, sin) = &self.0[rope];
        let (dim, half) = (x.dim(2)?, cos.dim(2)?);
        let (low, high) = (x.narrow(2, 0, half)?, x.narrow(2, half, half)?);
        let turned_low = (low.broadcast_mul(cos)? - high.broadcast_mul(sin)?)?;
        let turned_high = (high.broadcast_mul(cos)? + low.broadcast_mul(sin)?)?;
        if dim == 2 * half {
            return Tensor::cat(&[turned_low, turned_high], 2);
        }
        Tensor::cat(&[turned_low, turned_high, x.narrow(2, 2 * half, dim - 2 * half)?], 2)
    }
}

/// Masks of one batch, one per window of the architecture.
pub struct Masks(Vec<(Option<usize>, Tensor)>);

impl Masks {
    /// Creates the masks; `make` returns the mask of a window: 0 where a token sees a key, else -∞.
    pub fn new(config: &ModelConfig, make: impl Fn(Option<usize>) -> Result<Tensor>) -> Result<Self> {
        let windows: BTreeSet<Option<usize>> = config.architecture.layers.iter().map(|layer| layer.window).collect();
        windows.into_iter().map(|window| Ok((window, make(window)?))).collect::<Result<_>>().map(Self)
    }
    /// Returns the mask of a layer with this window.
    pub fn of(&self, window: Option<usize>) -> Result<&Tensor> {
        match self.0.iter().find(|(own, _)| *own == window) {
            Some((_, mask)) => Ok(mask),
            None => candle_core::bail!("no mask for the window {window:?}"),
        }
    }
}
