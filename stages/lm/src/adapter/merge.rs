//! The weights of a model with its adapter added to them.

use super::{Adapter, DOWN, SCORES, UP};
use crate::ops::{Matrix, product};
use crate::tensor::candle;
use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};

impl Adapter {
    /// `weights` with W + scale · B·A in the place of every adapted W, and with the adapter's scoring head. What is
    /// not adapted is shared.
    pub fn merged(&self, weights: &BTreeMap<String, Tensor>) -> Result<BTreeMap<String, Tensor>> {
        let mut merged = weights.clone();
        let layers: Vec<&str> = self.layers().into_iter().collect();
        let sums: Vec<(String, Tensor)> =
            layers.into_par_iter().map(|layer| self.sum(weights, layer)).collect::<Result<_>>()?;
        merged.extend(sums);
        merged.extend(self.tensors.get(SCORES).map(|head| (SCORES.to_string(), head.clone())));
        Ok(merged)
    }

    fn sum(&self, weights: &BTreeMap<String, Tensor>, layer: &str) -> Result<(String, Tensor)> {
        let name = format!("{layer}.weight");
        let tensor =
            weights.get(&name).ok_or_else(|| Error::data(format!("the model lacks `{name}`, which is adapted")))?;
        let (rows, columns) = tensor.dims2().map_err(candle)?;
        let mut sum = numbers(tensor)?;
        let down = numbers(&self.tensors[&format!("{layer}{DOWN}")])?;
        let scale = self.scale() as f32;
        let up: Vec<f32> = numbers(&self.tensors[&format!("{layer}{UP}")])?.into_iter().map(|x| x * scale).collect();
        let (up, down) = (Matrix::rows(&up, self.rank), Matrix::rows(&down, columns));
        product((rows, columns, self.rank), up, down, &mut sum, columns, true);
        Ok((name, Tensor::from_vec(sum, (rows, columns), &Device::Cpu).map_err(candle)?))
    }
}

fn numbers(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.to_dtype(DType::F32).and_then(|t| t.flatten_all()?.to_vec1::<f32>()).map_err(candle)
}
