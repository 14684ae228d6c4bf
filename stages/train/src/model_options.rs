//! Checks the options of the model that a stage trains, and the models at its inputs.

use crate::optimize::OptimizerOptions;
use trainyard_core::{OptionProblem, WiredInputs};
use trainyard_lm::adapter::AdapterOptions;
use trainyard_lm::checkpoint::SaveOptions;
use trainyard_lm::memory::TrainingMemory;
use trainyard_lm::shape;
use trainyard_lm::template::TemplateOptions;

/// Checks the options `optimizer`, `template`, `adapter` and `save`.
pub fn problems(
    optimizer: &OptimizerOptions,
    template: &TemplateOptions,
    adapter: Option<&AdapterOptions>,
    save: &SaveOptions,
) -> Vec<OptionProblem> {
    let mut problems = optimizer.problems("/optimizer");
    problems.extend(template.problems("/template"));
    problems.extend(adapter.iter().flat_map(|adapter| adapter.problems("/adapter")));
    problems.extend(save.problems("/save"));
    problems
}

/// Reports models at `ports` without a language head, and a wired `model` that does not fit the adapter, the memory or
/// the template.
pub fn unsuitable(
    inputs: &WiredInputs,
    ports: &[&str],
    template: &TemplateOptions,
    training: &TrainingMemory<'_>,
) -> Vec<OptionProblem> {
    let mut problems = shape::without_language_head(inputs, ports);
    problems.extend(shape::adapter_problems(inputs, training.adapter));
    problems.extend(shape::too_large(inputs, training));
    problems.extend(shape::native_template_problems(template, inputs, &["model"]));
    problems
}
