//! Implements AdamW on the device, with float32 moments: the formula of [`crate::optimizer::AdamW`] in tensor
//! operations.

use super::gradients::DeviceGradients;
use crate::optimizer::{AdamWConfig, StepReport, not_finite};
use crate::tensor::candle;
use candle_core::{Device, Tensor, Var};
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};

/// Moments by parameter name and the number of steps taken.
pub struct DeviceAdamW {
    config: AdamWConfig,
    parameters: BTreeMap<String, Var>,
    /// Means of gradients and of their squares.
    moments: BTreeMap<String, (Tensor, Tensor)>,
    steps: u64,
}

impl DeviceAdamW {
    /// Creates an optimizer that shares `parameters` with the model; all moments start at 0.
    pub fn new(parameters: BTreeMap<String, Var>, config: AdamWConfig) -> Result<Self> {
        let zeros = |(name, var): (&String, &Var)| {
            let zero = || var.as_detached_tensor().zeros_like().map_err(candle);
            Ok((name.clone(), (zero()?, zero()?)))
        };
        let moments = parameters.iter().map(zeros).collect::<Result<_>>()?;
        Ok(Self { config, parameters, moments, steps: 0 })
    }
    pub fn parameters(&self) -> &BTreeMap<String, Var> {
        &self.parameters
    }
    pub fn steps(&self) -> u64 {
        self.steps
    }
    /// Updates the parameters in place, as [`crate::optimizer::AdamW::step`] does.
    pub fn step(&mut self, gradients: &DeviceGradients, rate: f64) -> Result<StepReport> {
        let norms = gradients.norms().map_err(candle)?;
        let norm = norms.iter().map(|(_, norm)| norm * norm).sum::<f64>().sqrt();
        if !norm.is_finite() {
            let name = norms.iter().find(|(_, norm)| !norm.is_finite()).map(|(name, _)| *name);
            return Err(not_finite(name, self.steps));
        }
        let clip = self.config.max_norm.map_or(1.0, |max_norm| (max_norm / (norm + 1e-6)).min(1.0));
        self.steps += 1;
        for (name, var) in &self.parameters {
            let gradient = gradients.get(name).ok_or_else(|| Error::bug(format!("no gradient reached `{name}`")))?;
            let moments = &self.moments[name];
            let moments = update(&self.config, self.steps, var, moments, gradient, rate, clip).map_err(candle)?;
            self.moments.insert(name.clone(), moments);
        }
        Ok(StepReport { gradient_norm: norm, clip })
    }
    /// Returns a copy of the state on the CPU, under the names of [`crate::optimizer::AdamW::save`].
    pub fn save(&self) -> Result<BTreeMap<String, Tensor>> {
        let mut state = BTreeMap::new();
        for (name, (first, second)) in &self.moments {
            for (kind, moment) in [("first", first), ("second", second)] {
                state.insert(format!("{kind}.{name}"), moment.to_device(&Device::Cpu).map_err(candle)?);
            }
        }
        let steps = [self.steps as u32, (self.steps >> 32) as u32];
        state.insert("step".into(), Tensor::new(&steps, &Device::Cpu).map_err(candle)?);
        Ok(state)
    }
    /// Restores the state that [`DeviceAdamW::save`] returned for the same parameters. Errors name the missing or
    /// misshapen tensor.
    pub fn load(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let find = |key: String, shape: &[usize]| match state.get(&key) {
            Some(tensor) if tensor.dims() == shape => Ok(tensor),
            Some(tensor) => {
                Err(Error::data(format!("`{key}` of the optimizer state has shape {:?}, not {shape:?}", tensor.dims())))
            }
            None => Err(Error::data(format!("the optimizer state lacks `{key}`"))),
        };
        let steps = find("step".into(), &[2])?.to_vec1::<u32>().map_err(candle)?;
        let read = |(name, var): (&String, &Var)| {
            let moment =
                |kind: &str| find(format!("{kind}.{name}"), var.dims())?.to_device(var.device()).map_err(candle);
            Ok((name.clone(), (moment("first")?, moment("second")?)))
        };
        self.moments = self.parameters.iter().map(read).collect::<Result<_>>()?;
        self.steps = u64::from(steps[0]) | (u64::from(steps[1]) << 32);
        Ok(())
    }
}

/// Changes one parameter in place and returns its new moments.
fn update(
    c: &AdamWConfig,
    steps: u64,
    var: &Var,
    (first, second): &(Tensor, Tensor),
    gradient: &Tensor,
    rate: f64,
    clip: f64,
) -> candle_core::Result<(Tensor, Tensor)> {
    let correction = |beta: f64| 1.0 - beta.powi(i32::try_from(steps).unwrap_or(i32::MAX));
    let decay = if var.dims().len() > 1 { rate * c.weight_decay } else { 0.0 };
    let gradient = (gradient * clip)?;
    let first = ((first * c.beta1)? + (&gradient * (1.0 - c.beta1))?)?;
    let second = ((second * c.beta2)? + (gradient.sqr()? * (1.0 - c.beta2))?)?;
    let root = (second.sqrt()?.affine(1.0 / correction(c.beta2).sqrt(), c.epsilon))?;
    let change = (first.div(&root)? * (rate / correction(c.beta1)))?;
    var.set(&((var.as_detached_tensor() * (1.0 - decay))? - change)?)?;
    Ok((first, second))
}
