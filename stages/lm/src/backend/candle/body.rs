//! All layers and the last norm, forward and backward.
//!
//! One layer's graph is in memory at a time: the forward pass keeps the residual stream at every layer's input, and the
//! backward pass computes a layer again before it goes through it. With `recompute` off, all graphs stay.

use super::device::Precision;
use super::gradients::Gradients;
use super::layer::{self, Angles, RowAngles, rms_norm, scaled};
use super::layout::Layout;
use super::weights::{LayerWeights, norm, prefix};
use crate::config::ModelConfig;
use candle_core::{DType, Device, Result, Tensor, Var};
use std::collections::BTreeMap;

pub const EMBEDDINGS: &str = "model.embed_tokens.weight";
const NORM: &str = "model.norm";

/// The trained weights, float32, and what a pass needs besides them.
pub struct Body {
    pub config: ModelConfig,
    pub weights: BTreeMap<String, Var>,
    pub device: Device,
    precision: Precision,
    recompute: bool,
}

/// What a backward pass needs of the forward pass before it.
pub struct Pass {
    layout: Layout,
    steps: Vec<Step>,
}

/// A layer, or the last norm.
struct Step {
    /// The residual stream before it, a variable of its own.
    input: Var,
    /// What it gave, with its graph, unless that is computed again.
    output: Option<Tensor>,
}

impl Body {
    pub fn new(
        config: ModelConfig,
        weights: BTreeMap<String, Var>,
        device: Device,
        precision: Precision,
        recompute: bool,
    ) -> Self {
        Self { config, weights, device, precision, recompute }
    }
    /// A matrix in the type of products, without a gradient.
    pub fn matrix(&self, name: &str) -> Result<Tensor> {
        self.weight(name, false)?.to_dtype(self.precision.dtype())
    }
    /// A parameter in float32; `tracked` = with a gradient.
    fn weight(&self, name: &str, tracked: bool) -> Result<Tensor> {
        let Some(var) = self.weights.get(name) else { candle_core::bail!("the model lacks `{name}`") };
        Ok(if tracked { var.as_tensor().clone() } else { var.as_detached_tensor() })
    }
    /// Hidden states after the last norm, `[rows, hidden]` in float32, the same bits with and without `keep`; with it,
    /// also what [`Body::backward`] needs.
    pub fn forward(&self, layout: Layout, keep: bool) -> Result<(Tensor, Option<Pass>)> {
        let angles = self.angles(&layout)?;
        let embeddings = self.weights[EMBEDDINGS].as_detached_tensor();
        let scale = self.config.architecture.embedding_scale;
        let mut x = scaled(embeddings.index_select(&layout.tokens, 0)?, scale)?;
        let mut steps = Vec::new();
        for index in 0..=self.config.num_hidden_layers {
            if !keep {
                x = self.step(index, &x, &layout, &angles, false)?;
                continue;
            }
            let input = Var::from_tensor(&x)?;
            let tracked = !self.recompute;
            let from = if tracked { input.as_tensor().clone() } else { input.as_detached_tensor() };
            let output = self.step(index, &from, &layout, &angles, tracked)?;
            x = output.detach();
            steps.push(Step { input, output: tracked.then_some(output) });
        }
        Ok((x, keep.then_some(Pass { layout, steps })))
    }
    /// Adds the gradients of all parameters below the head for the gradient `slopes` of the hidden states.
    pub fn backward(&self, pass: Pass, mut slopes: Tensor, gradients: &mut Gradients) -> Result<()> {
        let angles = self.angles(&pass.layout)?;
        for (index, step) in pass.steps.into_iter().enumerate().rev() {
            let output = match step.output {
                Some(output) => output,
                None => self.step(index, step.input.as_tensor(), &pass.layout, &angles, true)?,
            };
            let mut store = (output * slopes)?.sum_all()?.backward()?;
            let Some(below) = store.remove(step.input.as_tensor()) else {
                candle_core::bail!("no gradient reached the input of layer {index}")
            };
            slopes = below;
            for (name, var) in self.weights.iter().filter(|(name, _)| self.belongs(name, index)) {
                let Some(gradient) = store.remove(var.as_tensor()) else {
                    candle_core::bail!("no gradient reached `{name}`")
                };
                gradients.add(name, gradient)?;
            }
        }
        let embeddings = &self.weights[EMBEDDINGS];
        let gradient = Tensor::zeros(embeddings.shape(), DType::F32, &self.device)?;
        let slopes = scaled(slopes, self.config.architecture.embedding_scale)?;
        gradients.add(EMBEDDINGS, gradient.index_add(&pass.layout.tokens, &slopes, 0)?)
    }

    fn step(&self, index: usize, x: &Tensor, layout: &Layout, angles: &RowAngles, tracked: bool) -> Result<Tensor> {
        if index == self.config.num_hidden_layers {
            let weight = norm(&self.config, &|name| self.weight(name, tracked), NORM)?;
            return rms_norm(x, &weight, self.config.rms_norm_eps);
        }
        let (dtype, window) = (self.precision.dtype(), self.config.architecture.layers[index].window);
        let weights = LayerWeights::of(&self.config, index, &|name| self.weight(name, tracked), dtype)?;
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
    fn angles(&self, layout: &Layout) -> Result<RowAngles> {
        Angles::new(&self.config, &self.device).at(&layout.positions, layout.longest)
    }
}
