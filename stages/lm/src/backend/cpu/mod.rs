//! The reference backend: float32 on the cores of this machine.

mod learner;
mod sampler;

use super::{Backend, Learner, LearnerOptions, Sampler, SamplerOptions};
use crate::folder::ModelFolder;
use learner::CpuLearner;
use trainyard_core::Result;

/// Trains with the decoder's hand-written backward pass and samples with the generator's kernels.
pub struct Cpu;

impl Backend for Cpu {
    fn kind(&self) -> &'static str {
        "cpu"
    }
    fn learner(&self, model: &ModelFolder, options: &LearnerOptions) -> Result<Box<dyn Learner>> {
        Ok(Box::new(CpuLearner::new(model, options)?))
    }
    fn sampler(&self, model: &ModelFolder, options: &SamplerOptions) -> Result<Box<dyn Sampler>> {
        Ok(Box::new(model.generator(options.threads)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::conformance;

    #[test]
    fn the_cpu_backend_conforms() {
        conformance::suite(&Cpu);
    }
}
