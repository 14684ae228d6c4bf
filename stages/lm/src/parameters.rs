//! Holds weights as plain numbers: the output of learners, the input of samplers, the content of checkpoints.

use crate::checkpoint::{load_tensors, save_tensors};
use crate::generate::WeightSource;
use crate::tensor::candle;
use crate::weights::Weights;
use candle_core::{Device, Tensor};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// One parameter: its shape and its values in row order.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelParameter {
    /// Lengths of the dimensions, outermost first.
    pub shape: Vec<usize>,
    /// Values, as many as the product of `shape`; clones share them.
    pub values: Arc<Vec<f32>>,
}

/// All parameters of a model by their Hugging Face names, in name order. Clones share the numbers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parameters(pub BTreeMap<String, ModelParameter>);

impl Parameters {
    /// Reads the parameters of a safetensors file.
    pub fn load(path: &Path) -> Result<Self> {
        Self::from_weights(&load_tensors(path)?)
    }
    /// Writes the parameters to a safetensors file; equal numbers give equal bytes.
    pub fn save(&self, path: &Path) -> Result<()> {
        save_tensors(path, &self.to_weights()?)
    }
    pub(crate) fn from_weights(weights: &Weights) -> Result<Self> {
        let one = |(name, tensor): (&String, &Tensor)| {
            let values = tensor.flatten_all().and_then(|t| t.to_vec1::<f32>()).map_err(candle)?;
            Ok((name.clone(), ModelParameter { shape: tensor.dims().to_vec(), values: Arc::new(values) }))
        };
        weights.iter().map(one).collect::<Result<_>>().map(Self)
    }
    pub(crate) fn to_weights(&self) -> Result<Weights> {
        let one = |(name, p): (&String, &ModelParameter)| {
            let tensor = Tensor::from_slice(&p.values, p.shape.clone(), &Device::Cpu).map_err(candle)?;
            Ok((name.clone(), tensor))
        };
        self.0.iter().map(one).collect()
    }
}

impl WeightSource for Parameters {
    fn shape(&self, name: &str) -> Option<&[usize]> {
        self.0.get(name).map(|p| p.shape.as_slice())
    }
    fn values(&self, name: &str) -> Result<Vec<f32>> {
        let parameter = self.0.get(name).ok_or_else(|| Error::invalid(format!("the model has no tensor `{name}`")))?;
        Ok(parameter.values.to_vec())
    }
}
