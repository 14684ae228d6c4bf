//! Defines default learning rates by training method and model size.
//!
//! AdamW moves every weight by about the rate per step, regardless of the gradient, so the rate has to suit the
//! weights. A model of a million parameters that starts from random numbers learns at 2e-3. The same rate ruins a model
//! of 135 million parameters that was trained on trillions of tokens within two steps: its loss rises from 3.1 to 10.8.
//! `docs/models.md` contains the table and its sources.

use super::OptimizerOptions;
use trainyard_api::StageContext;
use trainyard_core::{OptionProblem, WiredInputs};
use trainyard_lm::adapter::AdapterOptions;
use trainyard_lm::backend::TrainableParameters;
use trainyard_lm::{ModelFolder, shape};

/// Training method of a learner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainingMethod {
    /// Supervised fine-tuning.
    Sft,
    /// The policy of reinforcement learning.
    Rl,
    /// Preference learning on pairs.
    Preference,
    /// A process reward model.
    Prm,
    /// The value model of actor-critic methods.
    Critic,
}

/// Parameters that a learner changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainableKind {
    /// All weights, or a head of the model.
    Weights,
    /// Weights of an adapter, which start at no effect and need larger steps.
    Adapter,
}

impl From<TrainableParameters> for TrainableKind {
    fn from(learns: TrainableParameters) -> Self {
        match learns {
            TrainableParameters::All | TrainableParameters::Scores | TrainableParameters::Nothing => Self::Weights,
            TrainableParameters::Adapter => Self::Adapter,
        }
    }
}

impl From<Option<&AdapterOptions>> for TrainableKind {
    fn from(options: Option<&AdapterOptions>) -> Self {
        if options.is_some() { Self::Adapter } else { Self::Weights }
    }
}

/// Parameter count below which a model counts as created by this program, with random weights.
const TINY: usize = 5_000_000;
const SMALL: usize = 100_000_000;
const MIDDLE: usize = 2_000_000_000;
/// Ratio of an adapter's rate to that of all weights, except for tiny models (https://thinkingmachines.ai/blog/lora).
const ADAPTER: f64 = 10.0;
/// Usual rates: down to the default divided by the first factor, up to the default times the second.
const BAND: (f64, f64) = (20.0, 10.0);

impl TrainingMethod {
    fn name(self) -> &'static str {
        match self {
            Self::Sft => "supervised fine-tuning",
            Self::Rl => "reinforcement learning",
            Self::Preference => "preference learning",
            Self::Prm => "a process reward model",
            Self::Critic => "a value model",
        }
    }
    /// Returns the default rate for a model of this many parameters.
    pub fn rate(self, parameters: usize, changed: TrainableKind) -> f64 {
        let [tiny, small, middle, large] = match self {
            Self::Sft => [2e-3, 2e-4, 2e-5, 1e-5],
            Self::Rl => [5e-4, 1e-5, 1e-6, 1e-6],
            Self::Preference => [1e-4, 5e-6, 1e-6, 5e-7],
            Self::Prm => [5e-4, 1e-4, 1e-5, 1e-5],
            Self::Critic => [1e-3, 1e-4, 1e-5, 1e-5],
        };
        let (rate, adapter) = match parameters {
            n if n < TINY => (tiny, 1.0),
            n if n < SMALL => (small, ADAPTER),
            n if n < MIDDLE => (middle, ADAPTER),
            _ => (large, ADAPTER),
        };
        if changed == TrainableKind::Adapter { rate * adapter } else { rate }
    }
}

impl OptimizerOptions {
    /// Returns the options with a rate for training this model: the given rate, or the default. Logs a warning if the
    /// given rate is unusual.
    pub fn settle(
        &self,
        method: TrainingMethod,
        model: &ModelFolder,
        learns: TrainableParameters,
        context: &StageContext,
    ) -> Self {
        let (parameters, changed) = (model.config.parameter_count(), learns.into());
        if let Some((warning, help)) = self.unusual(method, parameters, changed) {
            context.warn(format!("{warning}: {help}"));
        }
        self.settled(method, parameters, changed)
    }
    /// Returns a warning for `check` if the rate of these options, at the pointer `at`, is unusual for the input
    /// `model`. `None` if the rate is usual or the model's shape is unknown.
    pub fn warning(
        &self,
        at: &str,
        method: TrainingMethod,
        inputs: &WiredInputs,
        changed: TrainableKind,
    ) -> Option<OptionProblem> {
        let (warning, help) = self.unusual(method, shape::parameters(inputs)?, changed)?;
        Some(OptionProblem::new(format!("{at}/learning_rate"), warning).help(help))
    }
    /// Returns the options with the given rate, or with the default rate.
    fn settled(&self, method: TrainingMethod, parameters: usize, changed: TrainableKind) -> Self {
        let rate = self.learning_rate.unwrap_or_else(|| method.rate(parameters, changed));
        Self { learning_rate: Some(rate), ..self.clone() }
    }
    /// Returns a warning about an unusual rate and the usual range, or `None` if the rate is not given or is usual.
    fn unusual(&self, method: TrainingMethod, parameters: usize, changed: TrainableKind) -> Option<(String, String)> {
        let (rate, usual) = (self.learning_rate?, method.rate(parameters, changed));
        let (low, high) = (usual / BAND.0, usual * BAND.1);
        let subject = if changed == TrainableKind::Adapter { "an adapter of a model" } else { "a model" };
        let warning = format!(
            "a learning rate of {rate:e} is outside the usual range for {} of {subject} of {parameters} parameters, \
             {low:.0e} to {high:.0e}",
            method.name()
        );
        (rate < low || rate > high).then(|| (warning, format!("`learning_rate: null` gives {usual:.0e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_method_size_and_what_changes() {
        let rate = |method: TrainingMethod, parameters| method.rate(parameters, TrainableKind::Weights);
        // Models created by this program keep the rates that they were tuned with.
        assert_eq!(
            [TrainingMethod::Sft, TrainingMethod::Rl, TrainingMethod::Prm, TrainingMethod::Critic]
                .map(|m| rate(m, 400_000)),
            [2e-3, 5e-4, 5e-4, 1e-3]
        );
        assert_eq!([rate(TrainingMethod::Sft, 134_515_008), rate(TrainingMethod::Rl, 1_540_000_000)], [2e-5, 1e-6]);
        assert_eq!(rate(TrainingMethod::Sft, 8_000_000_000), 1e-5);
        for (method, parameters, expected) in [
            (TrainingMethod::Sft, 134_515_008, 2e-4),
            (TrainingMethod::Rl, 500_000_000, 1e-5),
            (TrainingMethod::Sft, 400_000, 2e-3),
        ] {
            assert!((method.rate(parameters, TrainableKind::Adapter) / expected - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn given_rate_is_kept_and_unusual_rate_is_reported() {
        let given = |learning_rate| OptimizerOptions { learning_rate, ..OptimizerOptions::default() };
        let settled = |rate, parameters| {
            let (options, changed) = (given(rate), TrainableKind::Weights);
            let warning = options.unusual(TrainingMethod::Sft, parameters, changed).map(|(a, b)| format!("{a}: {b}"));
            (options.settled(TrainingMethod::Sft, parameters, changed), warning)
        };
        assert_eq!(settled(None, 135_000_000), (given(Some(2e-5)), None));
        assert_eq!(settled(Some(5e-5), 135_000_000), (given(Some(5e-5)), None));
        assert_eq!(settled(Some(4e-3), 400_000), (given(Some(4e-3)), None));
        let (kept, warning) = settled(Some(2e-3), 135_000_000);
        assert_eq!(kept.learning_rate, Some(2e-3));
        let warning = warning.unwrap();
        for word in ["2e-3", "supervised fine-tuning", "135000000", "1e-6 to 2e-4", "`learning_rate: null` gives 2e-5"]
        {
            assert!(warning.contains(word), "{word}: {warning}");
        }
        assert!(settled(Some(1e-8), 135_000_000).1.is_some());
    }
}
