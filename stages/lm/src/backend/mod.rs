//! Defines the traits of model backends: a [`Learner`] trains a model, a [`Sampler`] decodes with one, a [`Backend`]
//! creates both.
//!
//! The traits carry only numbers and token ids, so support for a GPU, another machine or an endpoint is one more file
//! here and one line in [`registry`]. [`cpu`] is the reference, and every other backend must pass [`conformance`]. See
//! `docs/design/0025-backends.md`.

pub mod candle;
pub mod conformance;
pub mod cpu;
mod decode_sampler;
pub mod endpoint;
mod features;
mod learner;
pub mod registry;
mod sampler;
pub mod turn_source;

pub use crate::parameters::{ModelParameter, Parameters};
use decode_sampler::{Decode, DecodeSampler};
pub use features::{BackendFeatures, ForcedScoring};
pub use learner::{Learner, LearnerHead, LearnerOptions, OutputGradients, Outputs, TokenPosition, TrainableParameters};
use learner::{is_adapter_parameter, learned_files};
pub use sampler::{Sampler, SamplerOptions};

use crate::folder::ModelFolder;
use trainyard_core::Result;
use trainyard_tables::SamplingParams;

/// Use of a stage's requested GPUs by a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gpus {
    /// The backend computes on the CPU, or elsewhere.
    Unused,
    /// The backend computes on a GPU that no pool counts.
    Uncounted,
    /// The backend computes on the first requested GPU.
    Needed,
}

/// Creates learners and samplers of a model.
pub trait Backend: Send + Sync {
    /// Returns the name in [`registry`].
    fn kind(&self) -> &'static str;
    /// Returns the use of the stage's GPUs.
    fn gpus(&self) -> Gpus;
    /// Returns the features of the backend; the default is all.
    fn features(&self) -> BackendFeatures {
        BackendFeatures::ALL
    }
    /// Returns the problem and the remedy if the backend cannot sample under these options or report the probabilities
    /// of its draws, or `None` if it can.
    fn refuses(&self, _sampling: &SamplingParams) -> Option<(String, String)> {
        None
    }
    /// Returns whether a number has the same bits in every batch. Otherwise a number is the same up to the rounding of
    /// float32 sums, and a token differs only where its draw lies between the two roundings.
    fn is_batch_invariant(&self) -> bool;
    /// Creates a learner that starts from the folder's weights.
    ///
    /// Errors: weights that do not fit the config; a model that the backend cannot run.
    fn learner(&self, model: &ModelFolder, options: &LearnerOptions) -> Result<Box<dyn Learner>>;
    /// Creates a sampler of the folder's weights, at version 0.
    ///
    /// Errors: weights that do not fit the config; a model that the backend cannot run.
    fn sampler(&self, model: &ModelFolder, options: &SamplerOptions) -> Result<Box<dyn Sampler>>;
}
