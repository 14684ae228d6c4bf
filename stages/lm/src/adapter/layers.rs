//! Lists the linear layers that an adapter may change, selects them by the options, and maps the decoder's linear
//! layers to their rows of an adapter.

use crate::config::ModelConfig;
use crate::fused::wholes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trainyard_core::{Error, Result};

/// A linear layer of a model: its weight is `[rows, columns]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinearLayer {
    /// Without `.weight`, such as `model.layers.0.mlp.up_proj`.
    pub name: String,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub columns: usize,
}

/// Returns all linear layers below the head, in name order, under their names in files and in PEFT.
pub fn linear_layers(config: &ModelConfig) -> Vec<LinearLayer> {
    let wholes = wholes(config);
    let mut layers: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (name, shape) in config.parameters() {
        let (Some(name), [rows, columns]) = (name.strip_suffix(".weight"), shape.as_slice()) else { continue };
        let Some((layer, part)) = name.strip_prefix("model.layers.").and_then(|n| n.split_once('.')) else { continue };
        let fused = wholes.iter().find(|fused| fused.parts.iter().any(|(own, _)| *own == part));
        let name = fused.map_or(name.to_string(), |fused| format!("model.layers.{layer}.{}", fused.name));
        layers.entry(name).or_insert((0, *columns)).0 += rows;
    }
    layers.into_iter().map(|(name, (rows, columns))| LinearLayer { name, rows, columns }).collect()
}

/// The rows of an adapted layer of files that one linear layer of the decoder computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdapterRows {
    /// Name below the decoder layer: the name of the decoder's linear layer, or of the fused layer that contains it.
    pub layer: &'static str,
    pub rows: Range<usize>,
    /// Rows of the fused layer.
    pub total_rows: usize,
}

/// Returns the rows of the decoder's linear layer `part` (such as `mlp.up_proj`), which has this number of outputs.
pub(crate) fn adapter_rows(config: &ModelConfig, part: &'static str, outputs: usize) -> AdapterRows {
    let in_fused = wholes(config).into_iter().find_map(|fused| {
        let rows = fused.ranges().find(|(own, _)| *own == part)?.1;
        Some(AdapterRows { layer: fused.name, rows, total_rows: fused.rows() })
    });
    in_fused.unwrap_or(AdapterRows { layer: part, rows: 0..outputs, total_rows: outputs })
}

/// Returns the decoder's linear layers that make up the layer `layer` of files (`model.layers.0.self_attn.qkv_proj`),
/// with the rows of each; `rows` are the rows of the file's layer.
pub(super) fn parts(config: &ModelConfig, layer: &str, rows: usize) -> Vec<(String, Range<usize>)> {
    for fused in wholes(config) {
        if let Some(before) = layer.strip_suffix(fused.name).filter(|before| before.ends_with('.')) {
            return fused.ranges().map(|(part, rows)| (format!("{before}{part}"), rows)).collect();
        }
    }
    vec![(layer.to_string(), 0..rows)]
}

/// Returns whether a target matches a layer, as in PEFT: the target is the whole name of the layer or a suffix of whole
/// parts.
pub(crate) fn matches_target(target: &str, layer: &str) -> bool {
    layer.strip_suffix(target).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Returns the layers that `targets` name, or all layers if `targets` is `None`. Errors: invalid, naming the first
/// target that matches no layer.
pub(super) fn targeted(config: &ModelConfig, targets: Option<&[String]>) -> Result<Vec<LinearLayer>> {
    let all = linear_layers(config);
    let Some(targets) = targets else { return Ok(all) };
    if let Some(target) = targets.iter().find(|target| !all.iter().any(|layer| matches_target(target, &layer.name))) {
        return Err(unknown(config, target));
    }
    Ok(all.into_iter().filter(|layer| targets.iter().any(|target| matches_target(target, &layer.name))).collect())
}

/// Returns the error for a name that matches no linear layer.
pub(super) fn unknown(config: &ModelConfig, name: &str) -> Error {
    let all = linear_layers(config);
    let last: BTreeSet<&str> = all.iter().filter_map(|layer| layer.name.rsplit('.').next()).collect();
    Error::invalid(format!("the model has no linear layer `{name}` for an adapter"))
        .help(format!("it has: {}", last.into_iter().collect::<Vec<_>>().join(", ")))
}
