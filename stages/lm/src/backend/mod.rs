//! Where models are computed: a [`Learner`] trains one, a [`Sampler`] decodes with one, a [`Backend`] hands out both.
//!
//! The traits carry numbers and token ids only, so a GPU, another machine or an endpoint is one more file here and one
//! line in [`registry`]. [`cpu`] is the reference: every other backend must pass [`conformance`].

pub mod conformance;
pub mod cpu;
mod learner;
mod parameters;
pub mod registry;
mod sampler;

pub use learner::{Head, Learner, LearnerOptions, Learns, Outputs, Place, Slopes};
pub use parameters::{Parameter, Parameters};
pub use sampler::{Sampler, SamplerOptions};

use crate::folder::ModelFolder;
use trainyard_core::Result;

/// Hands out learners and samplers of a model.
pub trait Backend: Send + Sync {
    /// Its name in [`registry`].
    fn kind(&self) -> &'static str;
    /// A learner that starts from the folder's weights.
    ///
    /// Errors: weights that do not fit the config; what the backend cannot run.
    fn learner(&self, model: &ModelFolder, options: &LearnerOptions) -> Result<Box<dyn Learner>>;
    /// A sampler of the folder's weights, at version 0.
    ///
    /// Errors: weights that do not fit the config; what the backend cannot run.
    fn sampler(&self, model: &ModelFolder, options: &SamplerOptions) -> Result<Box<dyn Sampler>>;
}
