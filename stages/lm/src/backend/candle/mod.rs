//! Computes the decoder with candle's tensor operations, on any candle device.
//!
//! The backend computes the same model as the reference, up to rounding: on the CPU in float32, log-probabilities
//! differ by at most 1e-4 and gradients by at most 1e-3 of their norm (`backend/conformance/agreement.rs` checks both).
//! Training uses only operations with a backward. See `docs/design/0025-backends.md`.

mod adamw;
mod body;
mod cache;
mod decoder;
mod device;
mod draw;
mod gradients;
mod head;
mod layer;
mod layout;
mod learner;
mod options;
mod sampler;
mod weights;

use super::{Backend, Gpus, Learner, LearnerOptions, Sampler, SamplerOptions};
use crate::folder::ModelFolder;
use device::DeviceKind;
use learner::CandleLearner;
pub use options::Candle;
pub(super) use options::how_to_use_a_gpu;
use trainyard_api::family::PartOptions;
use trainyard_core::Result;

impl Backend for Candle {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn gpus(&self) -> Gpus {
        match self.device {
            DeviceKind::Cpu => Gpus::Unused,
            DeviceKind::Metal => Gpus::Uncounted,
            DeviceKind::Cuda => Gpus::Needed,
        }
    }
    fn is_batch_invariant(&self) -> bool {
        false
    }
    fn learner(&self, model: &ModelFolder, options: &LearnerOptions) -> Result<Box<dyn Learner>> {
        Ok(Box::new(CandleLearner::new(self, model, options)?))
    }
    fn sampler(&self, model: &ModelFolder, _options: &SamplerOptions) -> Result<Box<dyn Sampler>> {
        sampler::sampler(self, model)
    }
}
