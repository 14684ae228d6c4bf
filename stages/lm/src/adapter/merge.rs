//! Merges an adapter into the weights of its model.

use super::{Adapter, DOWN, UP, layers};
use crate::config::ModelConfig;
use crate::ops::{MatrixView, product};
use crate::tensor::candle;
use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use trainyard_core::{Error, Result};

impl Adapter {
    /// Returns `weights` of a model of this config with W + scale · B·A in place of every adapted W, and with the
    /// adapter's scoring head. Unadapted tensors are shared.
    pub fn merged(&self, config: &ModelConfig, weights: &BTreeMap<String, Tensor>) -> Result<BTreeMap<String, Tensor>> {
        let mut merged = weights.clone();
        let mut parts: Vec<(&str, String, Range<usize>)> = Vec::new();
        for layer in self.layers() {
            let rows = self.tensors[&format!("{layer}{UP}")].dims()[0];
            parts.extend(layers::parts(config, layer, rows).into_iter().map(|(part, rows)| (layer, part, rows)));
        }
        let sums = parts.into_par_iter().map(|(layer, part, rows)| self.sum(weights, layer, &part, rows));
        merged.extend(sums.collect::<Result<Vec<(String, Tensor)>>>()?);
        merged.extend(self.scores());
        Ok(merged)
    }

    /// Returns the weight of `part`, which has these rows of `layer`, plus the adapter's product.
    fn sum(
        &self,
        weights: &BTreeMap<String, Tensor>,
        layer: &str,
        part: &str,
        of_layer: Range<usize>,
    ) -> Result<(String, Tensor)> {
        let name = format!("{part}.weight");
        let tensor = weights
            .get(&name)
            .ok_or_else(|| Error::data(format!("the model has no `{name}`, which the adapter changes")))?;
        let (rows, columns) = tensor.dims2().map_err(candle)?;
        let mut sum = numbers(tensor)?;
        let down = numbers(&self.tensors[&format!("{layer}{DOWN}")])?;
        let up = self.tensors[&format!("{layer}{UP}")].narrow(0, of_layer.start, of_layer.len()).map_err(candle)?;
        let scale = self.scale() as f32;
        let up: Vec<f32> = numbers(&up)?.into_iter().map(|x| x * scale).collect();
        let (up, down) = (MatrixView::rows(&up, self.rank), MatrixView::rows(&down, columns));
        product((rows, columns, self.rank), up, down, &mut sum, columns, true);
        Ok((name, Tensor::from_vec(sum, (rows, columns), &Device::Cpu).map_err(candle)?))
    }
}

fn numbers(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.to_dtype(DType::F32).and_then(|t| t.flatten_all()?.to_vec1::<f32>()).map_err(candle)
}
