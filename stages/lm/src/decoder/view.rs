//! Provides the model's parameters as plain slices for the duration of one pass.

use super::linear::{LinearView, LoraView};
use super::projection::Projection;
use super::state::KernelSizes;
use crate::adapter::{AdapterRows, DOWN, UP, adapter_rows};
use crate::config::ModelConfig;
use crate::ops::KernelScalar;
use candle_core::{Storage, Tensor};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A norm's weight with the family's offset added.
pub(super) type NormWeight<'a, T> = Cow<'a, [T]>;

/// One layer's parameters.
pub(super) struct LayerView<'a, T: KernelScalar> {
    pub norms: NormViews<'a, T>,
    pub query: LinearView<'a, T>,
    pub key: LinearView<'a, T>,
    pub value: LinearView<'a, T>,
    /// Query, key and value bias.
    pub biases: Option<[&'a [T]; 3]>,
    pub query_norm: Option<NormWeight<'a, T>>,
    pub key_norm: Option<NormWeight<'a, T>>,
    pub output: LinearView<'a, T>,
    pub output_bias: Option<&'a [T]>,
    pub gate: LinearView<'a, T>,
    pub up: LinearView<'a, T>,
    pub down: LinearView<'a, T>,
}

/// The norms of a layer, as named in `LayerNorms`.
pub(super) struct NormViews<'a, T: KernelScalar> {
    pub attention_in: Option<NormWeight<'a, T>>,
    pub attention_out: Option<NormWeight<'a, T>>,
    pub mlp_in: Option<NormWeight<'a, T>>,
    pub mlp_out: Option<NormWeight<'a, T>>,
}

impl<'a, T: KernelScalar> LayerView<'a, T> {
    pub fn linear(&self, part: Projection) -> &LinearView<'a, T> {
        match part {
            Projection::Query => &self.query,
            Projection::Key => &self.key,
            Projection::Value => &self.value,
            Projection::Output => &self.output,
            Projection::Gate => &self.gate,
            Projection::Up => &self.up,
            Projection::Down => &self.down,
        }
    }
}

/// Options of an adapter that its tensors do not determine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LoraScale {
    pub rank: usize,
    pub scale: f64,
}

pub(super) struct WeightsView<'a, T: KernelScalar> {
    pub embeddings: &'a [T],
    pub norm: NormWeight<'a, T>,
    pub layers: Vec<LayerView<'a, T>>,
}

/// Locks the tensors for reading and passes the view to `work`.
pub(super) fn with_view<T: KernelScalar, R>(
    config: &ModelConfig,
    low: Option<LoraScale>,
    tensors: &BTreeMap<String, Tensor>,
    work: impl FnOnce(&WeightsView<'_, T>) -> R,
) -> candle_core::Result<R> {
    let guards: Vec<_> = tensors.iter().map(|(name, t)| (name.as_str(), t.storage_and_layout())).collect();
    let mut slices = BTreeMap::new();
    for (name, (storage, layout)) in &guards {
        let (Storage::Cpu(storage), Some((start, end))) = (&**storage, layout.contiguous_offsets()) else {
            candle_core::bail!("parameter {name} is not contiguous memory of the CPU")
        };
        slices.insert(*name, &T::cpu_storage_as_slice(storage)?[start..end]);
    }
    let (architecture, sizes) = (&config.architecture, KernelSizes::of(config));
    let centered = |weight| centered(weight, T::of(architecture.norm_offset));
    let layers = (0..config.num_hidden_layers)
        .map(|i| {
            let find = |name: &str| slices.get(format!("model.layers.{i}.{name}").as_str()).copied();
            let need =
                |name: &str| find(name).ok_or_else(|| candle_core::Error::Msg(format!("layer {i} lacks {name}")));
            let norm = |name: Option<&str>| name.map(|name| need(&format!("{name}.weight")).map(centered)).transpose();
            let linear = |part: Projection| {
                let (name, (outputs, inputs)) = (part.name(), sizes.projection_shape(part));
                let AdapterRows { layer, rows, .. } = adapter_rows(config, name, outputs);
                let factors = low.zip(find(&format!("{layer}{DOWN}"))).zip(find(&format!("{layer}{UP}")));
                let low = factors.map(|((LoraScale { rank, scale }, down), up)| LoraView {
                    layer,
                    down,
                    up: &up[rows.start * rank..rows.end * rank],
                    rank,
                    scale: T::of(scale),
                });
                Ok::<_, candle_core::Error>(LinearView {
                    weight: need(&format!("{name}.weight"))?,
                    inputs,
                    outputs,
                    lora: low,
                })
            };
            let biases = match find("self_attn.q_proj.bias") {
                Some(q) => Some([q, need("self_attn.k_proj.bias")?, need("self_attn.v_proj.bias")?]),
                None => None,
            };
            Ok(LayerView {
                norms: NormViews {
                    attention_in: norm(architecture.norms.attention_in)?,
                    attention_out: norm(architecture.norms.attention_out)?,
                    mlp_in: norm(architecture.norms.mlp_in)?,
                    mlp_out: norm(architecture.norms.mlp_out)?,
                },
                query: linear(Projection::Query)?,
                key: linear(Projection::Key)?,
                value: linear(Projection::Value)?,
                biases,
                query_norm: find("self_attn.q_norm.weight").map(centered),
                key_norm: find("self_attn.k_norm.weight").map(centered),
                output: linear(Projection::Output)?,
                output_bias: find("self_attn.o_proj.bias"),
                gate: linear(Projection::Gate)?,
                up: linear(Projection::Up)?,
                down: linear(Projection::Down)?,
            })
        })
        .collect::<candle_core::Result<Vec<_>>>()?;
    let top = |name: &str| {
        slices.get(name).copied().ok_or_else(|| candle_core::Error::Msg(format!("the model lacks {name}")))
    };
    let norm = centered(top("model.norm.weight")?);
    Ok(work(&WeightsView { embeddings: top("model.embed_tokens.weight")?, norm, layers }))
}

fn centered<T: KernelScalar>(weight: &[T], offset: T) -> NormWeight<'_, T> {
    if offset == T::ZERO { weight.into() } else { weight.iter().map(|w| *w + offset).collect::<Vec<T>>().into() }
}
