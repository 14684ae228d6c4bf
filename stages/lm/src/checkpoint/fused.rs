//! Splits the fused tensors of some families when files are read, and joins them when files are written.

use crate::config::ModelConfig;
use crate::fused::{FusedLinear, wholes};
use crate::tensor::candle;
use crate::weights::Weights;
use candle_core::Tensor;
use std::collections::BTreeMap;
use trainyard_core::Result;

/// Returns every fused layer of the model, with the prefix of its layer's parameter names.
fn groups(config: &ModelConfig) -> Vec<(String, FusedLinear)> {
    let of = |layer: usize| wholes(config).into_iter().map(move |fused| (format!("model.layers.{layer}."), fused));
    (0..config.num_hidden_layers).flat_map(of).collect()
}

/// Splits the fused tensors of a file into their parts. A tensor that is missing or has another shape is left
/// unchanged.
pub(super) fn split(config: &ModelConfig, weights: &mut Weights) -> Result<()> {
    for (layer, fused) in groups(config) {
        let name = format!("{layer}{}.weight", fused.name);
        let fits = |t: &Tensor| t.dims().len() == 2 && t.dims()[0] == fused.rows();
        let Some(tensor) = weights.get(&name).filter(|t| fits(t)).cloned() else { continue };
        weights.remove(&name);
        for (part, rows) in fused.ranges() {
            let part_of =
                tensor.narrow(0, rows.start, rows.len()).and_then(|t| t.force_contiguous()).map_err(candle)?;
            weights.insert(format!("{layer}{part}.weight"), part_of);
        }
    }
    Ok(())
}

/// Splits the shapes of fused tensors as [`split`] splits the tensors.
pub(super) fn split_shapes(config: &ModelConfig, shapes: &mut BTreeMap<String, Vec<usize>>) {
    for (layer, fused) in groups(config) {
        let name = format!("{layer}{}.weight", fused.name);
        let Some(&[rows, columns]) = shapes.get(&name).map(Vec::as_slice) else { continue };
        if rows == fused.rows() {
            shapes.remove(&name);
            shapes
                .extend(fused.parts.iter().map(|(part, rows)| (format!("{layer}{part}.weight"), vec![*rows, columns])));
        }
    }
}

/// Returns the weights with the parts of each fused layer joined into one tensor, as files keep them.
pub(super) fn join(config: &ModelConfig, weights: &Weights) -> Result<Weights> {
    let mut joined = weights.clone();
    for (layer, fused) in groups(config) {
        let name = |part: &str| format!("{layer}{part}.weight");
        let parts: Vec<Tensor> = fused.parts.iter().filter_map(|(part, _)| joined.remove(&name(part))).collect();
        joined.insert(name(fused.name), Tensor::cat(&parts, 0).map_err(candle)?);
    }
    Ok(joined)
}
