//! Tensors that some families keep in one piece: queries, keys and values, and gate and up.

use crate::config::ModelConfig;
use crate::decoder::Weights;
use crate::tensor::candle;
use candle_core::Tensor;
use trainyard_core::Result;

/// Name of the whole, names of the parts and their rows, for every layer.
fn groups(config: &ModelConfig) -> Vec<(String, Vec<(String, usize)>)> {
    let (query, key, inner) = (config.query_width(), config.key_width(), config.intermediate_size);
    let attention = [("q", query), ("k", key), ("v", key)];
    let group = |layer: usize, block: &str, whole: &str, parts: &[(&str, usize)]| {
        let name = |part: &str| format!("model.layers.{layer}.{block}.{part}_proj.weight");
        (name(whole), parts.iter().map(|(part, rows)| (name(part), *rows)).collect())
    };
    (0..config.num_hidden_layers)
        .flat_map(|l| {
            [group(l, "self_attn", "qkv", &attention), group(l, "mlp", "gate_up", &[("gate", inner), ("up", inner)])]
        })
        .collect()
}

/// Cuts the wholes of a file into their parts. A whole that is missing or has other sizes is left as it is.
pub(super) fn split(config: &ModelConfig, weights: &mut Weights) -> Result<()> {
    for (whole, parts) in groups(config) {
        let rows: usize = parts.iter().map(|(_, rows)| rows).sum();
        let fits = |t: &Tensor| t.dims().len() == 2 && t.dims()[0] == rows;
        let Some(tensor) = weights.get(&whole).filter(|t| fits(t)).cloned() else { continue };
        weights.remove(&whole);
        let mut first = 0;
        for (name, rows) in parts {
            let part = tensor.narrow(0, first, rows).and_then(|t| t.force_contiguous()).map_err(candle)?;
            weights.insert(name, part);
            first += rows;
        }
    }
    Ok(())
}

/// Joins the parts, for a file.
pub(super) fn join(config: &ModelConfig, weights: &Weights) -> Result<Weights> {
    let mut joined = weights.clone();
    for (whole, parts) in groups(config) {
        let parts: Vec<Tensor> = parts.iter().filter_map(|(name, _)| joined.remove(name)).collect();
        joined.insert(whole, Tensor::cat(&parts, 0).map_err(candle)?);
    }
    Ok(joined)
}
