//! Where models are computed: a [`Learner`] trains one, a [`Sampler`] decodes with one, a [`Backend`] hands out both.
//!
//! The traits carry numbers and token ids only, so a GPU, another machine or an endpoint is one more file here and one
//! line in [`registry`]. [`cpu`] is the reference: every other backend must pass [`conformance`].

pub mod candle;
pub mod conformance;
pub mod cpu;
pub mod endpoint;
mod learner;
mod offers;
mod parameters;
pub mod registry;
mod rostered;
mod sampler;
pub mod turns;

pub use learner::{Head, Learner, LearnerOptions, Learns, Outputs, Place, Slopes};
use learner::{learned_files, of_adapter};
pub use offers::{Forced, Offers};
pub use parameters::{Parameter, Parameters};
use rostered::{Decode, Rostered};
pub use sampler::{Sampler, SamplerOptions};

use crate::folder::ModelFolder;
use trainyard_core::Result;
use trainyard_tables::Sampling;

/// What a backend does with the GPUs that a stage asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gpus {
    /// It computes on the CPU, or elsewhere.
    Unused,
    /// It computes on a GPU that no pool counts.
    Uncounted,
    /// It computes on the first of them.
    Needed,
}

/// Hands out learners and samplers of a model.
pub trait Backend: Send + Sync {
    /// Its name in [`registry`].
    fn kind(&self) -> &'static str;
    /// Which GPUs of its stage it computes on.
    fn gpus(&self) -> Gpus;
    /// What it can do; everything, unless it says otherwise.
    fn offers(&self) -> Offers {
        Offers::ALL
    }
    /// Why it cannot sample by these options and say the probabilities of what it drew: what, and what to do instead.
    fn refuses(&self, _sampling: &Sampling) -> Option<(String, String)> {
        None
    }
    /// Whether a number has the same bits whatever shares its batch. If not, it is the same up to the rounding of
    /// float32 sums, and a token differs only where its draw falls between the two roundings.
    fn is_batch_invariant(&self) -> bool;
    /// A learner that starts from the folder's weights.
    ///
    /// Errors: weights that do not fit the config; what the backend cannot run.
    fn learner(&self, model: &ModelFolder, options: &LearnerOptions) -> Result<Box<dyn Learner>>;
    /// A sampler of the folder's weights, at version 0.
    ///
    /// Errors: weights that do not fit the config; what the backend cannot run.
    fn sampler(&self, model: &ModelFolder, options: &SamplerOptions) -> Result<Box<dyn Sampler>>;
}
