//! Runs all layers and the last norm, forward and backward.
//!
//! One layer's graph is in memory at a time: the forward pass keeps the residual stream at every layer's input, and the
//! backward pass computes a layer again before it differentiates the layer. With `recompute` off, all graphs stay in
//! memory. The passes keep no state and compute no gradients below the lowest trained layer.

use super::device::Precision;
use super::gradients::DeviceGradients;
use super::layer::{self, RotaryTables, RowAngles, rms_norm, scaled};
use super::layout::BatchLayout;
use super::weights::{DropoutContext, LayerSource, LayerWeights, prefix};
use crate::config::ModelConfig;
use crate::decoder::{Dropout, LoraScale};
use candle_core::{DType, Device, Result, Tensor, Var};
use std::collections::BTreeMap;

pub const EMBEDDINGS: &str = "model.embed_tokens.weight";
const NORM: &str = "model.norm";

/// Weights and the other inputs of a pass.
pub struct DecoderBody {
    pub config: ModelConfig,
    /// Trained parameters, float32.
    pub learned: BTreeMap<String, Var>,
    /// Frozen parameters: float32, or the type of products for matrices.
    pub frozen: BTreeMap<String, Tensor>,
    /// Low-rank options of the adapter; `None` for a model without one.
    pub lora: Option<LoraScale>,
    pub device: Device,
    pub precision: Precision,
    pub recompute: bool,
}

/// State that a forward pass keeps for its backward pass.
pub struct SavedPass {
    layout: BatchLayout,
    dropout: Option<Dropout>,
    /// Layer of the first step.
    lowest: usize,
    steps: Vec<SavedLayer>,
}

/// A layer, or the last norm.
struct SavedLayer {
    /// Residual stream before the step, a separate variable.
    input: Var,
    /// Output with its graph, unless it is recomputed.
    output: Option<Tensor>,
}

/// One pass over the layers.
#[derive(Clone, Copy)]
struct LayerContext<'a> {
    layout: &'a BatchLayout,
    angles: &'a RowAngles,
    dropout: Option<&'a Dropout>,
}

impl DecoderBody {
    /// Returns a matrix in the type of products, without a gradient.
    pub fn matrix(&self, name: &str) -> Result<Tensor> {
        self.need(name)?.to_dtype(self.precision.dtype())
    }
    /// Returns a parameter, without a gradient.
    pub fn need(&self, name: &str) -> Result<Tensor> {
        match self.find(name, false) {
            Some(tensor) => Ok(tensor),
            None => candle_core::bail!("the model lacks `{name}`"),
        }
    }
    /// Returns a parameter, or `None` if the model lacks it. With `tracked`, a trained parameter has a gradient.
    fn find(&self, name: &str, tracked: bool) -> Option<Tensor> {
        let learned = |var: &Var| if tracked { var.as_tensor().clone() } else { var.as_detached_tensor() };
        self.learned.get(name).map(learned).or_else(|| self.frozen.get(name).cloned())
    }
    /// Returns the lowest layer with a trained parameter (the last norm counts as a layer), or `None` if only the head
    /// is trained.
    fn lowest(&self) -> Option<usize> {
        let layer = |name: &str| match name.strip_prefix("model.layers.") {
            Some(rest) => rest.split('.').next()?.parse().ok(),
            None if name == EMBEDDINGS => Some(0),
            None => (name.strip_suffix(".weight") == Some(NORM)).then_some(self.config.num_hidden_layers),
        };
        self.learned.keys().filter_map(|name| layer(name)).min()
    }

    /// Returns hidden states after the last norm, `[rows, hidden]` in float32, with the same bits whether or not `keep`
    /// is set. With `keep`, also returns the state for [`DecoderBody::backward`], unless no parameter below the head is
    /// trained.
    pub fn forward(
        &self,
        layout: BatchLayout,
        dropout: Option<Dropout>,
        keep: bool,
    ) -> Result<(Tensor, Option<SavedPass>)> {
        let angles = self.angles(&layout)?;
        let context = LayerContext { layout: &layout, angles: &angles, dropout: dropout.as_ref() };
        let scale = self.config.architecture.embedding_scale;
        let mut x = scaled(self.need(EMBEDDINGS)?.index_select(&layout.tokens, 0)?, scale)?;
        let lowest = self.lowest().filter(|_| keep);
        let mut steps = Vec::new();
        for index in 0..=self.config.num_hidden_layers {
            if lowest.is_none_or(|lowest| index < lowest) {
                x = self.step(index, &x, context, false)?;
                continue;
            }
            let input = Var::from_tensor(&x)?;
            let tracked = !self.recompute;
            let from = if tracked { input.as_tensor().clone() } else { input.as_detached_tensor() };
            let output = self.step(index, &from, context, tracked)?;
            x = output.detach();
            steps.push(SavedLayer { input, output: tracked.then_some(output) });
        }
        Ok((x, lowest.map(|lowest| SavedPass { layout, dropout, lowest, steps })))
    }
    /// Adds the gradients of the trained parameters below the head to `gradients`, given the gradient `slopes` of the
    /// hidden states.
    pub fn backward(&self, pass: SavedPass, mut slopes: Tensor, gradients: &mut DeviceGradients) -> Result<()> {
        let angles = self.angles(&pass.layout)?;
        let context = LayerContext { layout: &pass.layout, angles: &angles, dropout: pass.dropout.as_ref() };
        for (n, step) in pass.steps.into_iter().enumerate().rev() {
            let index = pass.lowest + n;
            let output = match step.output {
                Some(output) => output,
                None => self.step(index, step.input.as_tensor(), context, true)?,
            };
            let mut store = (output * slopes)?.sum_all()?.backward()?;
            let Some(below) = store.remove(step.input.as_tensor()) else {
                candle_core::bail!("no gradient reached the input of layer {index}")
            };
            slopes = below;
            for (name, var) in self.learned.iter().filter(|(name, _)| self.belongs(name, index)) {
                let Some(gradient) = store.remove(var.as_tensor()) else {
                    candle_core::bail!("no gradient reached `{name}`")
                };
                gradients.add(name, gradient)?;
            }
        }
        let Some(embeddings) = self.learned.get(EMBEDDINGS) else { return Ok(()) };
        let gradient = Tensor::zeros(embeddings.shape(), DType::F32, &self.device)?;
        let slopes = scaled(slopes, self.config.architecture.embedding_scale)?;
        gradients.add(EMBEDDINGS, gradient.index_add(&pass.layout.tokens, &slopes, 0)?)
    }

    fn step(&self, index: usize, x: &Tensor, context: LayerContext<'_>, tracked: bool) -> Result<Tensor> {
        let LayerContext { layout, angles, dropout } = context;
        let dtype = self.precision.dtype();
        let drops = dropout.map(|dropout| DropoutContext { dropout, ranges: &layout.ranges, device: &self.device });
        let find = |name: &str| Ok(self.find(name, tracked));
        let source = LayerSource { config: &self.config, find: &find, dtype, lora: self.lora, dropout: drops };
        if index == self.config.num_hidden_layers {
            return rms_norm(x, &source.norm(NORM)?, self.config.rms_norm_eps);
        }
        let window = self.config.architecture.layers[index].window;
        let weights = LayerWeights::of(&source, index)?;
        layer::forward(&self.config, index, &weights, x, angles, &mut |q, k, v| {
            layout.attend(window, [&q, &k, &v], dtype)
        })
    }
    fn belongs(&self, name: &str, index: usize) -> bool {
        if index == self.config.num_hidden_layers {
            name.strip_suffix(".weight") == Some(NORM)
        } else {
            name.starts_with(&prefix(index))
        }
    }
    fn angles(&self, layout: &BatchLayout) -> Result<RowAngles> {
        RotaryTables::new(&self.config, &self.device).at(&layout.positions, layout.longest)
    }
}
