//! Defines the optimizer options, and the learning rate by step: linear warm-up, then constant, linear or cosine decay.
//!
//! The rate depends only on the step, so a resumed run needs no scheduler state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::OptionProblem;
use trainyard_lm::optimizer::{AdamWConfig, Decay, LearningRateSchedule};

/// AdamW moves every weight by about the learning rate per step: a rate above 1 destroys the model.
const HIGHEST_RATE: f64 = 1.0;

/// AdamW (1711.05101) with warm-up, decay and clipping by the global norm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerOptions {
    /// Highest learning rate, reached at the end of warm-up; null = the default of the method and the model's size
    /// (`docs/models.md`).
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub learning_rate: Option<f64>,
    /// Decay after warm-up: to `final_share` along half a cosine, in a straight line, or none.
    pub decay: Decay,
    /// Share of all steps spent warming up from 0.
    #[schemars(range(min = 0, max = 1))]
    pub warmup_share: f64,
    /// Final learning rate as a share of the highest.
    #[schemars(range(min = 0, max = 1))]
    pub final_share: f64,
    /// Decay rate of the running mean of gradients.
    #[schemars(range(min = 0, max = 1))]
    pub beta1: f64,
    /// Decay rate of the running mean of squared gradients.
    #[schemars(range(min = 0, max = 1))]
    pub beta2: f64,
    /// Term added to the denominator of the AdamW step.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub epsilon: f64,
    /// Decoupled weight decay; applied to matrices only.
    #[schemars(range(min = 0))]
    pub weight_decay: f64,
    /// Global norm to which gradients are scaled down; 0 = never.
    #[schemars(range(min = 0))]
    pub clip_norm: f64,
}

impl Default for OptimizerOptions {
    fn default() -> Self {
        Self {
            learning_rate: None,
            decay: Decay::Cosine,
            warmup_share: 0.05,
            final_share: 0.1,
            beta1: 0.9,
            beta2: 0.95,
            epsilon: 1e-8,
            weight_decay: 0.01,
            clip_norm: 1.0,
        }
    }
}

impl OptimizerOptions {
    /// Returns the rate of step `step` (from 0) of `total`, if `peak` is the highest.
    pub fn rate(&self, peak: f64, step: u64, total: u64) -> f64 {
        let warmup = (self.warmup_share * total as f64).ceil() as u64;
        LearningRateSchedule { decay: self.decay, warmup, total, floor: self.final_share }.rate(peak, step)
    }
    /// Returns the AdamW settings without the learning rate, which [`OptimizerOptions::rate`] gives per step.
    pub fn adamw(&self) -> AdamWConfig {
        let max_norm = (self.clip_norm > 0.0).then_some(self.clip_norm);
        AdamWConfig {
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            weight_decay: self.weight_decay,
            max_norm,
        }
    }
    /// Checks ranges that types cannot express.
    pub fn problems(&self, at: &str) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        let mut bad = |key: &str, message: String| problems.push(OptionProblem::new(format!("{at}/{key}"), message));
        if let Some(rate) = self.learning_rate
            && !(rate > 0.0 && rate <= HIGHEST_RATE)
        {
            bad("learning_rate", format!("a learning rate of {rate} does not train: use a value above 0, at most 1"));
        }
        for (key, value) in [("warmup_share", self.warmup_share), ("final_share", self.final_share)] {
            if !(0.0..=1.0).contains(&value) {
                bad(key, format!("`{key}` is {value}, but must be within 0..1"));
            }
        }
        for (key, value) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            if !(0.0..1.0).contains(&value) {
                bad(key, format!("`{key}` is {value}, but must be at least 0 and below 1"));
            }
        }
        if self.epsilon.is_nan() || self.epsilon <= 0.0 {
            bad("epsilon", format!("`epsilon` is {}, but must be above 0", self.epsilon));
        }
        for (key, value) in [("weight_decay", self.weight_decay), ("clip_norm", self.clip_norm)] {
            if value.is_nan() || value < 0.0 {
                bad(key, format!("`{key}` is {value}, but must be at least 0"));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_then_decay_to_the_final_share() {
        let o = OptimizerOptions { warmup_share: 0.1, ..OptimizerOptions::default() };
        let rates: Vec<f64> = (0..=100).map(|s| o.rate(1.0, s, 100)).collect();
        assert!((rates[0] - 0.1).abs() < 1e-12 && (rates[9] - 1.0).abs() < 1e-12 && (rates[100] - 0.1).abs() < 1e-12);
        assert!(rates[10..].windows(2).all(|w| w[0] >= w[1]));
        assert_eq!(OptimizerOptions { decay: Decay::Constant, warmup_share: 0.0, ..o }.rate(1.0, 99, 100), 1.0);
    }

    #[test]
    fn every_invalid_range_is_reported() {
        let (learning_rate, clip_norm) = (Some(0.0), f64::NAN);
        let o = OptimizerOptions { learning_rate, beta2: 1.0, clip_norm, ..OptimizerOptions::default() };
        let at: Vec<String> = o.problems("/optimizer").into_iter().map(|p| p.pointer).collect();
        assert_eq!(at, ["/optimizer/learning_rate", "/optimizer/beta2", "/optimizer/clip_norm"]);
    }
}
