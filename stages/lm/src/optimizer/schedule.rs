//! Computes the learning rate of a step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schedule after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// The peak rate until the end.
    Constant,
    /// A straight line down to the final share.
    Linear,
    /// Half a cosine down to the final share (Loshchilov and Hutter, arXiv 1608.03983).
    #[default]
    Cosine,
}

/// Linear warm-up from 0 over `warmup` steps, then `decay` until `total` steps, then constant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LearningRateSchedule {
    /// Form of the decline after the warm-up.
    pub decay: Decay,
    /// Steps of warm-up; the first step uses `peak / warmup`.
    pub warmup: u64,
    /// Steps after which the decay has ended.
    pub total: u64,
    /// Share of the peak that remains at the end, 0 to 1.
    pub floor: f64,
}

impl LearningRateSchedule {
    /// Returns the learning rate of step `step` (counted from 0) for a peak rate.
    pub fn rate(&self, peak: f64, step: u64) -> f64 {
        if step < self.warmup {
            return peak * (step + 1) as f64 / self.warmup as f64;
        }
        let span = self.total.saturating_sub(self.warmup).max(1);
        let done = ((step - self.warmup) as f64 / span as f64).min(1.0);
        let left = match self.decay {
            Decay::Constant => 1.0,
            Decay::Linear => 1.0 - done,
            Decay::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
        };
        peak * (self.floor + (1.0 - self.floor) * left)
    }
}
