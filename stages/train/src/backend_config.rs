//! Reads the options of a stage that trains a model, together with the backend that computes the model.

use crate::parts::TrainParts;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_api::PreparedOptions;
use trainyard_core::{Facts, OptionProblem, Result, WiredInputs};
use trainyard_lm::backend::registry::BackendSlot;

/// Pointer to the backend in the options.
pub const BACKEND_POINTER: &str = "/backend";

/// Options with a key `backend`.
pub trait TrainOptions: Serialize + JsonSchema + Send + 'static {
    /// Checks ranges and contradictions of the options, except those of the backend.
    fn problems(&self) -> Vec<OptionProblem>;
    /// Checks the options against the artifacts at the ports.
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem>;
    /// Returns probable mistakes, given the facts of the inputs.
    fn warnings_with(&self, _inputs: &WiredInputs) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// Returns the known facts of the outputs, by port.
    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts>;
}

/// Options with their backend.
pub struct BackendConfig<C> {
    /// Options, including those of the backend.
    pub config: C,
    pub backend: BackendSlot,
}

impl<C: TrainOptions> BackendConfig<C> {
    /// Reads the backend and fills in its defaults, then parses all options.
    pub fn read(parts: &TrainParts, mut options: Value, parse: impl FnOnce(Value) -> Result<C>) -> Result<Self> {
        let backend = BackendSlot::read(&parts.backends, BACKEND_POINTER, &mut options);
        Ok(Self { config: parse(options)?, backend })
    }
    /// Returns the schema of the options, backends included.
    pub fn schema(parts: &TrainParts) -> Value {
        let mut schema = schemars::schema_for!(C).to_value();
        parts.fill_backend(&mut schema);
        schema
    }
}

impl<C: TrainOptions> PreparedOptions for BackendConfig<C> {
    type Config = C;
    fn config(&self) -> &C {
        &self.config
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let training = self.backend.problem_with_training();
        self.config.problems().into_iter().chain(self.backend.problems()).chain(training).collect()
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        self.config.problems_with(inputs)
    }
    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        self.config.warnings_with(inputs)
    }
    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        self.config.facts(inputs)
    }
    fn problems_with_gpus(&self, gpus: u32) -> Vec<OptionProblem> {
        self.backend.problems_with_gpus(gpus)
    }
}
