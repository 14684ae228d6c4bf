//! The linear layers that an adapter may change, and which of them its options name.

use crate::config::ModelConfig;
use std::collections::BTreeSet;
use trainyard_core::{Error, Result};

/// A linear layer of a decoder: its weight is `[rows, columns]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinearLayer {
    /// Without `.weight`, such as `model.layers.0.mlp.up_proj`.
    pub name: String,
    /// Numbers that come out.
    pub rows: usize,
    /// Numbers that go in.
    pub columns: usize,
}

/// All linear layers below the head, in name order.
pub fn linear_layers(config: &ModelConfig) -> Vec<LinearLayer> {
    let layer = |(name, shape): (String, Vec<usize>)| match (name.strip_suffix(".weight"), shape.as_slice()) {
        (Some(name), [rows, columns]) if name.starts_with("model.layers.") => {
            Some(LinearLayer { name: name.to_string(), rows: *rows, columns: *columns })
        }
        _ => None,
    };
    config.parameters().into_iter().filter_map(layer).collect()
}

/// Whether a target means a layer, as in PEFT: its whole name, or the end of it.
fn means(target: &str, layer: &str) -> bool {
    layer.strip_suffix(target).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// The layers that `targets` name; all if there are none. Errors: invalid, naming the first that names no layer.
pub(super) fn targeted(config: &ModelConfig, targets: Option<&[String]>) -> Result<Vec<LinearLayer>> {
    let all = linear_layers(config);
    let Some(targets) = targets else { return Ok(all) };
    if let Some(target) = targets.iter().find(|target| !all.iter().any(|layer| means(target, &layer.name))) {
        return Err(unknown(config, target));
    }
    Ok(all.into_iter().filter(|layer| targets.iter().any(|target| means(target, &layer.name))).collect())
}

/// The error for a name that is none of a linear layer.
pub(super) fn unknown(config: &ModelConfig, name: &str) -> Error {
    let all = linear_layers(config);
    let last: BTreeSet<&str> = all.iter().filter_map(|layer| layer.name.rsplit('.').next()).collect();
    Error::invalid(format!("the model has no linear layer `{name}` for an adapter"))
        .help(format!("it has: {}", last.into_iter().collect::<Vec<_>>().join(", ")))
}
