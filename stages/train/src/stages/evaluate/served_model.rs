//! Defines a model of an evaluation that is served at an endpoint.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_chat::ChatOptions;
use trainyard_core::OptionProblem;
use trainyard_envs::players::ModelCallMode;
use trainyard_tables::SamplingParams;

/// A served model that is evaluated in addition to the models of the input.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(inline)]
pub struct ServedModel {
    /// The model: `{endpoint: URL, model: NAME}`. The greedy episode is requested at temperature 0, drawn ones at the
    /// model's own `temperature`, or else at that of `sampling`; `max_tokens` limits a turn.
    pub model: ChatOptions,
    /// How the model calls tools.
    #[serde(skip_serializing_if = "ModelCallMode::is_default")]
    pub calls: ModelCallMode,
}

impl ServedModel {
    /// Returns the problems of the options at the pointer `place`.
    pub fn problems(&self, place: &str) -> Vec<OptionProblem> {
        self.model.problems().into_iter().map(|problem| problem.with_prefix("/model").with_prefix(place)).collect()
    }
    /// Returns the options of the model with this temperature and `top_p`.
    pub fn at(&self, sampling: SamplingParams) -> ChatOptions {
        let mut options = self.model.clone();
        options.temperature = Some(sampling.temperature);
        if sampling.top_p < 1.0 {
            options.extra.entry("top_p".into()).or_insert_with(|| sampling.top_p.into());
        }
        options
    }
}
