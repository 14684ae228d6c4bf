//! Collects gradients by parameter name from a graph, adds them over micro-batches, and measures their norm.
//!
//! Sums run in name order and element order on one fixed lane pattern, so a norm has the same bits for any number of
//! threads.

use crate::ops::vector::{add_into, sum_of_squares};
use candle_core::backprop::GradStore;
use candle_core::{DType, Var};
use rayon::prelude::*;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};

/// One float32 gradient per parameter, in name order.
#[derive(Debug, Clone, PartialEq)]
pub struct Gradients {
    pub(super) values: BTreeMap<String, Vec<f32>>,
}

impl Gradients {
    /// Takes the gradient of every parameter out of a backward pass and frees the original of each. Errors: bug, for a
    /// parameter without a gradient.
    pub fn collect(parameters: &BTreeMap<String, Var>, mut store: GradStore) -> Result<Self> {
        let mut values = BTreeMap::new();
        for (name, var) in parameters {
            let gradient = store.remove(var.as_tensor()).ok_or_else(|| {
                Error::bug(format!("no gradient reached `{name}`"))
                    .help("let the loss depend on every parameter of the optimizer")
            })?;
            let flat = gradient.flatten_all().and_then(|g| g.to_dtype(DType::F32)?.to_vec1::<f32>());
            values.insert(name.clone(), flat.map_err(crate::tensor::candle)?);
        }
        Ok(Self { values })
    }
    /// Adds another micro-batch's gradients. Errors: bug, if the parameters differ.
    pub fn add(&mut self, other: &Self) -> Result<()> {
        if self.values.len() != other.values.len() {
            return Err(Error::bug("cannot add gradients of different models"));
        }
        for ((name, sum), (other_name, term)) in self.values.iter_mut().zip(&other.values) {
            if name != other_name || sum.len() != term.len() {
                return Err(Error::bug(format!("cannot add the gradients of `{name}` and `{other_name}`")));
            }
            add_into(sum, term);
        }
        Ok(())
    }
    /// Returns the gradient of one parameter in row order, or `None` if there is no such parameter.
    pub fn get(&self, name: &str) -> Option<&[f32]> {
        self.values.get(name).map(Vec::as_slice)
    }
    /// Returns the Euclidean norm over all parameters, summed in name order in double precision.
    pub fn global_norm(&self) -> f64 {
        let squares: Vec<f64> = self.values.par_iter().map(|(_, g)| sum_of_squares(g)).collect();
        squares.into_iter().sum::<f64>().sqrt()
    }
}
