//! Implements the reference backend, which computes in float32 on the cores of this machine.

mod learner;
mod sampler;

use super::{Backend, Gpus, Learner, LearnerOptions, Sampler, SamplerOptions};
use crate::folder::ModelFolder;
use learner::CpuLearner;
use trainyard_core::Result;

pub(super) const KIND: &str = "cpu";
pub(super) const SUMMARY: &str = "this program's own kernels on the cores of the machine; the reference";
pub(super) const DOC: &str = "\
Float32 on the cores of the stage. Training has a hand-written backward pass, and sampling has separate kernels. No \
number depends on the number of threads or on what shares a batch, so equal files, inputs and seeds give equal bits.";

/// Trains with the decoder's hand-written backward pass and samples with the generator's kernels.
pub struct Cpu;

impl Backend for Cpu {
    fn kind(&self) -> &'static str {
        KIND
    }
    fn gpus(&self) -> Gpus {
        Gpus::Unused
    }
    fn is_batch_invariant(&self) -> bool {
        true
    }
    fn learner(&self, model: &ModelFolder, options: &LearnerOptions) -> Result<Box<dyn Learner>> {
        Ok(Box::new(CpuLearner::new(model, options)?))
    }
    fn sampler(&self, model: &ModelFolder, options: &SamplerOptions) -> Result<Box<dyn Sampler>> {
        Ok(Box::new(model.generator(options.threads)?))
    }
}
