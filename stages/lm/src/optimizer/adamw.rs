//! Implements Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101), with bias correction as in
//! Kingma and Ba (arXiv 1412.6980).

use super::Gradients;
use crate::checkpoint::{Numbers, save_numbers};
use crate::tensor::candle;
use candle_core::{CpuStorage, Device, InplaceOp1, Layout, Tensor, Var};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use trainyard_core::{Error, Result};

/// Options of AdamW. [`AdamW::step`] takes the learning rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWConfig {
    /// Decay of the mean of gradients, in [0, 1).
    pub beta1: f64,
    /// Decay of the mean of squared gradients, in [0, 1).
    pub beta2: f64,
    /// Added to the root of the corrected mean of squares, against division by 0.
    pub epsilon: f64,
    /// Decay of the weights of matrices; vectors (norms, biases) never decay.
    pub weight_decay: f64,
    /// Maximum global norm of the gradients, to which a step scales larger ones down; `None` = no clipping.
    pub max_norm: Option<f64>,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.01, max_norm: Some(1.0) }
    }
}

/// Result of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepReport {
    /// Global norm before clipping.
    pub gradient_norm: f64,
    /// The factor that clipping applied, at most 1.
    pub clip: f64,
}

#[derive(Debug, Clone, PartialEq)]
struct Moments {
    first: Vec<f32>,
    second: Vec<f32>,
    shape: Vec<usize>,
}

/// The optimizer: moments by parameter name and the number of steps taken.
pub struct AdamW {
    config: AdamWConfig,
    parameters: BTreeMap<String, Var>,
    moments: BTreeMap<String, Moments>,
    steps: u64,
}

/// Elements per task of the update. Every element is computed on its own, so this does not change results.
const PIECE: usize = 16_384;

impl AdamW {
    /// Creates an optimizer that shares `parameters` with the model; all moments start at 0.
    pub fn new(parameters: &BTreeMap<String, Var>, config: AdamWConfig) -> Self {
        let zero = |v: &Var| Moments {
            first: vec![0.0; v.elem_count()],
            second: vec![0.0; v.elem_count()],
            shape: v.dims().to_vec(),
        };
        let moments = parameters.iter().map(|(name, v)| (name.clone(), zero(v))).collect();
        Self { config, parameters: parameters.clone(), moments, steps: 0 }
    }
    /// Returns the number of steps, including those before the state was loaded.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Updates the parameters in place with learning rate `rate`.
    ///
    /// Errors: data, if the gradients are not finite; the state is then unchanged.
    pub fn step(&mut self, gradients: &Gradients, rate: f64) -> Result<StepReport> {
        let norm = gradients.global_norm();
        if !norm.is_finite() {
            return Err(self.non_finite_error(gradients));
        }
        let clip = self.config.max_norm.map_or(1.0, |max_norm| (max_norm / (norm + 1e-6)).min(1.0));
        self.steps += 1;
        let c = self.config;
        let correction = |beta: f64| 1.0 - beta.powi(i32::try_from(self.steps).unwrap_or(i32::MAX));
        let (one, two) = (correction(c.beta1), correction(c.beta2));
        for (name, var) in &self.parameters {
            let gradient = gradients.values.get(name).filter(|g| g.len() == var.elem_count());
            let gradient = gradient.ok_or_else(|| Error::bug(format!("no gradient of the right size for `{name}`")))?;
            let moments = self.moments.get_mut(name).ok_or_else(|| Error::bug(format!("no moments for `{name}`")))?;
            let decay = if var.dims().len() > 1 { rate * c.weight_decay } else { 0.0 };
            let update = AdamWUpdate {
                gradient,
                moments: Mutex::new(moments),
                clip: clip as f32,
                // 1 - β is rounded once: 1 - f32(0.999) has a relative error of 1.3e-5.
                beta1: (c.beta1 as f32, (1.0 - c.beta1) as f32),
                beta2: (c.beta2 as f32, (1.0 - c.beta2) as f32),
                keep: (1.0 - decay) as f32,
                size: (rate / one) as f32,
                root: (1.0 / two.sqrt()) as f32,
                epsilon: c.epsilon as f32,
            };
            var.as_tensor().inplace_op1(&update).map_err(candle)?;
        }
        Ok(StepReport { gradient_norm: norm, clip })
    }

    fn non_finite_error(&self, gradients: &Gradients) -> Error {
        let bad = gradients.values.iter().find(|(_, g)| g.iter().any(|x| !x.is_finite()));
        not_finite(bad.map(|(name, _)| name.as_str()), self.steps)
    }

    /// Writes the state for a checkpoint: `step` (two u32: low, high), `first.<name>`, `second.<name>`.
    pub fn save(&self, path: &Path) -> Result<()> {
        let words = [self.steps as u32, (self.steps >> 32) as u32];
        let steps = Tensor::from_slice(&words, 2, &Device::Cpu).map_err(candle)?;
        let mut state = BTreeMap::from([("step".to_string(), Numbers::Tensor(&steps))]);
        for (name, m) in &self.moments {
            state.insert(format!("first.{name}"), Numbers::Floats(&m.first, &m.shape));
            state.insert(format!("second.{name}"), Numbers::Floats(&m.second, &m.shape));
        }
        save_numbers(path, &state)
    }
    /// Restores the state that [`AdamW::save`] wrote, as `load_tensors` reads it, for the same parameters. Errors name
    /// a missing or misshapen tensor.
    pub fn load(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let find = |key: &str, shape: &[usize]| {
            let tensor = state.get(key).ok_or_else(|| Error::data(format!("the optimizer state lacks `{key}`")))?;
            if tensor.dims() == shape {
                Ok(tensor)
            } else {
                Err(Error::data(format!("`{key}` of the optimizer state has shape {:?}, not {shape:?}", tensor.dims())))
            }
        };
        let step = find("step", &[2])?.to_vec1::<u32>().map_err(candle)?;
        let mut moments = BTreeMap::new();
        for (name, m) in &self.moments {
            let read = |kind: &str| {
                find(&format!("{kind}.{name}"), &m.shape)?
                    .flatten_all()
                    .and_then(|t| t.to_vec1::<f32>())
                    .map_err(candle)
            };
            moments.insert(
                name.clone(),
                Moments { first: read("first")?, second: read("second")?, shape: m.shape.clone() },
            );
        }
        self.moments = moments;
        self.steps = u64::from(step[0]) | (u64::from(step[1]) << 32);
        Ok(())
    }
}

/// Returns the error for gradients that are not finite after `steps` steps; `name` is the first parameter with such a
/// gradient, if it alone is the cause.
pub(crate) fn not_finite(name: Option<&str>, steps: u64) -> Error {
    let name = name.unwrap_or("all together");
    Error::data(format!("the gradient of `{name}` is not finite at step {steps}"))
        .help("lower the learning rate, or check the loss for infinities")
}

/// Element-wise in-place update of one parameter.
struct AdamWUpdate<'a> {
    gradient: &'a [f32],
    moments: Mutex<&'a mut Moments>,
    clip: f32,
    beta1: (f32, f32),
    beta2: (f32, f32),
    keep: f32,
    size: f32,
    root: f32,
    epsilon: f32,
}

impl InplaceOp1 for AdamWUpdate<'_> {
    fn name(&self) -> &'static str {
        "adamw"
    }
    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        let (CpuStorage::F32(values), Some((start, end))) = (storage, layout.contiguous_offsets()) else {
            candle_core::bail!("adamw updates contiguous float32 parameters only")
        };
        let mut moments = self.moments.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Moments { first, second, .. } = &mut **moments;
        let pieces = values[start..end].par_chunks_mut(PIECE).zip(self.gradient.par_chunks(PIECE));
        let moments = first.par_chunks_mut(PIECE).zip(second.par_chunks_mut(PIECE));
        pieces.zip(moments).for_each(|((w, g), (m, v))| self.apply(w, g, m, v));
        Ok(())
    }
}

impl AdamWUpdate<'_> {
    fn apply(&self, w: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
        let Self { clip, beta1, beta2, keep, size, root, epsilon, .. } = *self;
        update((w, g, m, v), [clip, keep, size, root, epsilon], beta1, beta2);
    }
}

vectorized! {
    fn update(
        all: (&mut [T], &[T], &mut [T], &mut [T]),
        numbers: [T; 5],
        beta1: (T, T),
        beta2: (T, T),
    ) {
        let ((w, g, m, v), [clip, keep, size, root, epsilon]) = (all, numbers);
        for (((w, g), m), v) in w.iter_mut().zip(g).zip(m).zip(v) {
            let g = *g * clip;
            *m = beta1.0 * *m + beta1.1 * g;
            *v = beta2.0 * *v + beta2.1 * g * g;
            *w = *w * keep - size * *m / (v.sqrt() * root + epsilon);
        }
    }
}
