//! The fact `shape`: what is known of a model's `config.json` before the model exists, and what it is used for.

use crate::config::ModelConfig;
use crate::memory::Training;
use std::collections::BTreeMap;
use trainyard_core::units::format_size;
use trainyard_core::{Facts, OptionProblem, Wired};

/// The name of the fact.
pub const SHAPE: &str = "shape";

/// The facts of an output `model` that has the shape of the input `model`.
pub fn passed_on(inputs: &Wired) -> BTreeMap<String, Facts> {
    let shape = inputs.fact("model", SHAPE).next();
    let facts = shape.map(|shape| Facts::from([(SHAPE.to_string(), shape.clone())]));
    facts.into_iter().map(|facts| ("model".to_string(), facts)).collect()
}

/// A problem, if the shape of the input `model` is known and training it takes more memory than the stage may use.
pub fn too_large(inputs: &Wired, training: &Training<'_>) -> Option<OptionProblem> {
    let config = ModelConfig::from_json(inputs.fact("model", SHAPE).next()?).ok()?;
    let (need, have) = (training.at_least(&config), inputs.memory()?);
    let millions = config.parameter_count() / 1_000_000;
    let message = format!(
        "training {millions} million parameters takes at least {}, but the stage may use {}",
        format_size(need),
        format_size(have)
    );
    let help = match training.adapter {
        None => "train an `adapter`, lower `micro_batch_tokens`, or give the stage more memory",
        Some(_) => "lower `micro_batch_tokens`, or give the stage more memory",
    };
    (need > have).then(|| OptionProblem::new("/micro_batch_tokens", message).help(help))
}
