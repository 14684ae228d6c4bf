//! Implements `model/merge`, which adds a model's adapter to its weights.

use crate::checkpoint::SaveOptions;
use crate::folder::ModelFolder;
use crate::shape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_api::{Ports, PreparedOptions, Stage, StageContext, port};
use trainyard_core::error::Context as _;
use trainyard_core::{
    ArtifactKind, Cardinality, DeclaredMetrics, Error, Facts, MetricInfo, OptionProblem, Result, WiredInputs,
};

/// Options of `model/merge`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelMergeConfig {
    /// Format of the weights.
    #[serde(skip_serializing_if = "SaveOptions::is_default")]
    pub save: SaveOptions,
}

#[derive(Default)]
pub struct Merge;

impl PreparedOptions for ModelMergeConfig {
    type Config = Self;
    fn config(&self) -> &Self {
        self
    }
    fn problems(&self) -> Vec<OptionProblem> {
        self.save.problems("/save")
    }
    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        shape::whole(inputs)
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        shape::without_adapter(inputs, "model").into_iter().collect()
    }
}

impl Stage for Merge {
    type Prepared = ModelMergeConfig;
    const NAME: &'static str = "model/merge";
    const SUMMARY: &'static str = "a whole model from a base model and its adapter";
    const DOC: &'static str = "\
Adds a LoRA adapter to the weights that it changes: W + scale · B·A, computed in float32. The result is an ordinary \
model folder, which other programs load without PEFT, whose sampling costs nothing for the adapter, and on which a new \
adapter can be trained. A scoring head of the adapter becomes the model's.\n\n\
Errors: a model without an adapter.";
    const EXAMPLE: &'static str = "{}";

    fn metrics(&self) -> DeclaredMetrics {
        vec![
            MetricInfo::new("parameters", "numbers", "Numbers of the merged model."),
            MetricInfo::new("adapter_parameters", "numbers", "Numbers of the adapter that was added."),
        ]
        .into()
    }
    fn ports(&self) -> Ports {
        Ports {
            inputs: vec![port("model", ArtifactKind::Model, Cardinality::One, "A model with an adapter.")],
            outputs: vec![port("model", ArtifactKind::Model, Cardinality::One, "The merged model.")],
        }
    }
    fn prepare(&self, options: Value) -> Result<ModelMergeConfig> {
        self.parse(options)
    }

    fn run(&self, config: ModelMergeConfig, context: &mut StageContext) -> Result<()> {
        let model = ModelFolder::load(&context.input("model")?.folder).at("input `model`")?;
        let Some(adapter) = &model.adapter else {
            return Err(Error::invalid("input `model` has no adapter to merge")
                .help("use the model unchanged, or wire a stage with the option `adapter`"));
        };
        let merged = model.merged()?;
        context.metric("parameters", merged.config.parameter_count() as f64);
        context.metric("adapter_parameters", adapter.parameter_count() as f64);
        merged.save_as(context.output("model")?, &config.save)?;
        for (key, value) in merged.metadata() {
            context.describe("model", &key, value);
        }
        Ok(())
    }
}
