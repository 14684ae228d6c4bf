//! Options of `sft`.

use crate::optimize::OptimizerOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::OptionProblem;

/// Options of `sft`. Training ends at the first of `epochs`, `steps` and `tokens` that is given; 3 epochs if none is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Passes over the trajectories.
    pub epochs: Option<u64>,
    /// Optimizer steps.
    pub steps: Option<u64>,
    /// Tokens read, prompts included.
    pub tokens: Option<u64>,
    /// Tokens per optimizer step, prompts included; sequences of similar length share a step.
    #[schemars(range(min = 1))]
    pub batch_tokens: usize,
    /// Tokens computed together; bounds memory, changes only rounding. Gradients of a step add up over its parts.
    #[schemars(range(min = 1))]
    pub micro_batch_tokens: usize,
    /// Longer trajectories are left out and counted; 0 = as long as the model's positions.
    pub max_tokens: usize,
    /// Turns whose tool call failed teach what follows them, but are not imitated.
    pub mask_errored_turns: bool,
    pub optimizer: OptimizerOptions,
    /// Steps between measurements of the validation loss; 0 = only before the first step and after the last.
    pub validate_every: u64,
    /// Share of the problems held out where no `validation` input is given; 0 = none.
    #[schemars(range(min = 0, max = 0.5))]
    pub validation_share: f64,
    /// Stop after this many measurements without a better one; null = never.
    pub patience: Option<u64>,
    /// Steps between resume points; 0 = none.
    pub checkpoint_every: u64,
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            epochs: None,
            steps: None,
            tokens: None,
            batch_tokens: 8192,
            micro_batch_tokens: 8192,
            max_tokens: 0,
            mask_errored_turns: true,
            optimizer: OptimizerOptions { learning_rate: 2e-3, ..OptimizerOptions::default() },
            validate_every: 25,
            validation_share: 0.05,
            patience: None,
            checkpoint_every: 50,
            seed: 0,
        }
    }
}

impl Config {
    pub fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.optimizer.problems("/optimizer");
        let counts = [("/batch_tokens", self.batch_tokens), ("/micro_batch_tokens", self.micro_batch_tokens)];
        problems.extend(
            counts.iter().filter(|(_, n)| *n == 0).map(|(at, _)| OptionProblem::new(*at, "must be at least 1")),
        );
        let budgets =
            [("/epochs", self.epochs), ("/steps", self.steps), ("/tokens", self.tokens), ("/patience", self.patience)];
        problems.extend(
            budgets
                .iter()
                .filter(|(_, n)| *n == Some(0))
                .map(|(at, _)| OptionProblem::new(*at, "must be at least 1, or null")),
        );
        if !(0.0..=0.5).contains(&self.validation_share) {
            problems.push(OptionProblem::new(
                "/validation_share",
                format!("the share is {}, but must be within 0..0.5", self.validation_share),
            ));
        }
        problems
    }
}
