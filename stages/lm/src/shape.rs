//! Computes facts of a model before it exists, which stages pass on, and checks options against them.

use crate::adapter::{AdapterOptions, AdapterShape, LinearLayer, linear_layers, matches_target};
use crate::config::ModelConfig;
use crate::memory::TrainingMemory;
use crate::template::{TemplateOptions, ToolDescriptions, native_format};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trainyard_core::units::format_size;
use trainyard_core::{Error, Facts, OptionProblem, WiredInputs};

/// Name of the fact that holds the model's `config.json`.
pub const SHAPE: &str = "shape";
/// Name of the fact that holds the shape of the model's adapter; the fact is null for a model known to lack one.
pub const ADAPTER: &str = "adapter";
/// Name of the fact that holds the reason why the model's template cannot show tool results.
pub const LOST_RESULTS: &str = "lost_tool_results";
/// Name of the fact that holds the source of the model's template, or null if the template does not describe tools
/// itself.
pub const TOOL_TEMPLATE: &str = "tool_template";

/// Returns the facts of an output `model` that has the shape, the tokenizer and the template of the input `model`.
pub fn passthrough_facts(inputs: &WiredInputs) -> BTreeMap<String, Facts> {
    let passed = |key: &'static str| Some((key.to_string(), inputs.fact("model", key).next()?.clone()));
    let facts = [SHAPE, LOST_RESULTS, TOOL_TEMPLATE].into_iter().filter_map(passed).collect();
    [("model".to_string(), facts)].into()
}

/// Returns the facts of [`passthrough_facts`] for a whole model, without an adapter.
pub fn whole(inputs: &WiredInputs) -> BTreeMap<String, Facts> {
    let mut outputs = passthrough_facts(inputs);
    outputs.entry("model".into()).or_default().insert(ADAPTER.into(), Value::Null);
    outputs
}

/// Returns the facts of an output `model` that was trained from the input `model` with these options of an adapter.
pub fn trained(inputs: &WiredInputs, adapter: Option<&AdapterOptions>) -> BTreeMap<String, Facts> {
    let Some(options) = adapter.filter(|options| !options.merge) else { return whole(inputs) };
    let mut outputs = passthrough_facts(inputs);
    let shape = known(inputs, "model").and_then(|config| AdapterShape::from_options(&config, options).ok());
    let fact = shape.and_then(|shape| Some((ADAPTER.to_string(), serde_json::to_value(shape).ok()?)));
    outputs.entry("model".into()).or_default().extend(fact);
    outputs
}

/// Returns `outputs` for a model whose language head was replaced by a scoring head with `labels` outputs.
pub fn scoring(mut outputs: BTreeMap<String, Facts>, labels: usize) -> BTreeMap<String, Facts> {
    let shape = outputs.get_mut("model").and_then(|facts| facts.get_mut(SHAPE));
    if let Some(shape) = shape
        && let Ok(config) = ModelConfig::from_json(shape)
    {
        *shape = ModelConfig { num_labels: Some(labels), ..config }.to_json();
    }
    outputs
}

/// Returns the shape of the model at a port, if it is known.
fn known(inputs: &WiredInputs, port: &str) -> Option<ModelConfig> {
    ModelConfig::from_json(inputs.fact(port, SHAPE).next()?).ok()
}

/// Returns the number of parameters of the model at the input `model`, if its shape is known.
pub fn parameters(inputs: &WiredInputs) -> Option<usize> {
    known(inputs, "model").map(|config| config.parameter_count())
}

/// Returns problems at their pointers if the input `model` cannot have the adapter of these options: names that match
/// no layer, or an existing adapter that differs.
pub fn adapter_problems(inputs: &WiredInputs, adapter: Option<&AdapterOptions>) -> Vec<OptionProblem> {
    let Some((options, config)) = adapter.zip(known(inputs, "model")) else { return Vec::new() };
    let layers = linear_layers(&config);
    let mut problems = unknown_targets(options, &layers);
    if let (true, Some(existing)) = (problems.is_empty(), inputs.fact("model", ADAPTER).next())
        && let (Ok(existing), Ok(expected)) =
            (serde_json::from_value::<AdapterShape>(existing.clone()), AdapterShape::from_options(&config, options))
        && let Err(e) = existing.expect(&expected)
    {
        problems.push(OptionProblem { pointer: "/adapter".into(), message: e.message, help: e.help });
    }
    problems
}

/// Returns a problem for each entry of `targets` that matches no layer.
fn unknown_targets(options: &AdapterOptions, layers: &[LinearLayer]) -> Vec<OptionProblem> {
    let unknown = |target: &str| !layers.iter().any(|layer| matches_target(target, &layer.name));
    let mut last: Vec<&str> = layers.iter().filter_map(|layer| layer.name.rsplit('.').next()).collect();
    last.sort_unstable();
    last.dedup();
    let problem = |(i, target): (usize, &String)| {
        let message = format!("the model has no linear layer `{target}` for an adapter");
        OptionProblem::new(format!("/adapter/targets/{i}"), message).help(format!("it has: {}", last.join(", ")))
    };
    let targets = options.targets.iter().flatten().enumerate();
    targets.filter(|(_, target)| unknown(target)).map(problem).collect()
}

/// Returns a problem if the model at the port is known to have no adapter.
pub fn without_adapter(inputs: &WiredInputs, port: &str) -> Option<OptionProblem> {
    let none = inputs.fact(port, ADAPTER).any(Value::is_null);
    let problem = || OptionProblem::new(format!("/{port}"), format!("input `{port}` has no adapter to merge"));
    none.then(|| problem().help("use the model unchanged, or wire a stage with the option `adapter`"))
}

/// Returns problems of ports whose models are known to score tokens instead of predicting them.
pub fn without_language_head(inputs: &WiredInputs, ports: &[&str]) -> Vec<OptionProblem> {
    let scores = |port: &&&str| labels(inputs, port).iter().any(Option::is_some);
    let problem = |port: &&str| {
        OptionProblem::new(format!("/{port}"), "the model has no language head: it can score, not sample")
            .help("wire a model that was not trained by `prm`")
    };
    ports.iter().filter(scores).map(problem).collect()
}

/// Returns a problem if the model at the port is known to have no scoring head with one output.
pub fn without_scoring_head(inputs: &WiredInputs, port: &str) -> Option<OptionProblem> {
    let found = labels(inputs, port).into_iter().find(|labels| *labels != Some(1))?.unwrap_or(0);
    let problem =
        OptionProblem::new(format!("/{port}"), format!("input `{port}` has {found} score labels, expected 1"));
    Some(problem.help("wire the output `model` of a `prm` stage"))
}

/// Returns the outputs of the scoring heads of the models at a port whose shape is known.
fn labels(inputs: &WiredInputs, port: &str) -> Vec<Option<usize>> {
    inputs.fact(port, SHAPE).filter_map(|shape| Some(ModelConfig::from_json(shape).ok()?.num_labels)).collect()
}

/// Returns problems of ports with models whose templates are known not to support `template.tools: native`.
pub fn native_template_problems(
    template: &TemplateOptions,
    inputs: &WiredInputs,
    ports: &[&str],
) -> Vec<OptionProblem> {
    if template.tools != ToolDescriptions::Native {
        return Vec::new();
    }
    let templates = ports.iter().flat_map(|port| inputs.fact(port, TOOL_TEMPLATE));
    let refused = templates.filter_map(|source| native_format(source.as_str()).err()).next();
    let problem = |e: Error| OptionProblem { pointer: "/template/tools".into(), message: e.message, help: e.help };
    refused.map(problem).into_iter().collect()
}

/// Returns a problem if the shape of the input `model` is known and training it takes more memory than the stage may
/// use.
pub fn too_large(inputs: &WiredInputs, training: &TrainingMemory<'_>) -> Option<OptionProblem> {
    let config = known(inputs, "model")?;
    let (need, have) = (training.lower_bound(&config), inputs.memory()?);
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

/// Returns a warning if the limit of tokens at `pointer` is above the context of a model at `port`, which then limits
/// sequences; `None` if no such model's shape is known.
pub fn beyond_context(inputs: &WiredInputs, port: &str, pointer: &str, tokens: usize) -> Option<OptionProblem> {
    let contexts = inputs.fact(port, SHAPE).filter_map(|shape| Some(ModelConfig::from_json(shape).ok()?.positions()));
    let context = contexts.min().filter(|context| tokens > *context)?;
    let message = format!("{tokens} tokens, but the context of the model holds {context}");
    let help = "sequences end at the model's context: lower the limit, or raise `max_position_embeddings` where the \
                model is made";
    Some(OptionProblem::new(pointer, message).help(help))
}

/// Returns the facts of a model folder or GGUF file. `None` omits a fact; an `adapter` of `Some(None)` records that
/// the model has no adapter.
pub(crate) fn facts(shape: Option<&ModelConfig>, adapter: Option<Option<AdapterShape>>) -> Facts {
    let shape = shape.map(|shape| (SHAPE.to_string(), shape.to_json()));
    let adapter = adapter.map(|adapter| (ADAPTER.to_string(), json!(adapter)));
    shape.into_iter().chain(adapter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_above_the_smallest_context_are_warnings() {
        let of = |positions: usize| {
            let shape = ModelConfig { max_position_embeddings: positions, ..ModelConfig::llama(9, 8, 16, 1, 2, 2) };
            facts(Some(&shape), None)
        };
        let mut inputs = WiredInputs::default();
        inputs.wire("models", vec![of(64), of(512), Facts::new()]);
        let found = |tokens: usize, port: &str| beyond_context(&inputs, port, "/sampling/max_episode_tokens", tokens);
        let warning = found(65, "models").unwrap();
        assert_eq!(warning.pointer, "/sampling/max_episode_tokens");
        assert_eq!(warning.message, "65 tokens, but the context of the model holds 64");
        assert_eq!((found(64, "models"), found(65, "model")), (None, None));
    }
}
