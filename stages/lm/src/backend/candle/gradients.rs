//! Accumulates gradients on the device by parameter name, over micro-batches, in float32.

use super::device::widest;
use candle_core::{D, DType, Result, Tensor};
use std::collections::BTreeMap;

/// One float32 gradient per parameter that has any.
#[derive(Default)]
pub struct DeviceGradients(BTreeMap<String, Tensor>);

impl DeviceGradients {
    /// Adds `gradient` to the accumulated gradient of the parameter `name`.
    pub fn add(&mut self, name: &str, gradient: Tensor) -> Result<()> {
        let gradient = gradient.detach().to_dtype(DType::F32)?;
        let sum = match self.0.remove(name) {
            Some(sum) => (sum + gradient)?,
            None => gradient,
        };
        self.0.insert(name.to_string(), sum);
        Ok(())
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name)
    }
    /// Returns the Euclidean norm of every gradient, in name order, in one transfer.
    pub fn norms(&self) -> Result<Vec<(&str, f64)>> {
        let square = |gradient: &Tensor| {
            let sums = gradient.sqr()?.sum_keepdim(D::Minus1)?.flatten_all()?;
            sums.to_dtype(widest(sums.device()))?.sum_all()?.to_dtype(DType::F32)?.sqrt()?.reshape(1)
        };
        let norms: Vec<Tensor> = self.0.values().map(square).collect::<Result<_>>()?;
        if norms.is_empty() {
            return Ok(Vec::new());
        }
        let norms = Tensor::cat(&norms, 0)?.to_vec1::<f32>()?;
        Ok(self.0.keys().map(String::as_str).zip(norms.into_iter().map(f64::from)).collect())
    }
}
