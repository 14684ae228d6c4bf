//! Runs simple stage kinds in the engine's process, without an attempt folder. Their outputs are stored like those of
//! attempts.

use crate::attempt::{NoCheckpoints, UploadPaths, context, guard_sources, materialize, store_outputs};
use crate::catalogue::Catalogue;
use crate::scratch::ScratchFolder;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Handle;
use trainyard_api::{CancelToken, SilentReporter};
use trainyard_core::Result;
use trainyard_core::attempt::{AttemptResult, AttemptSpec};
use trainyard_runtime::InProcessRunner;
use trainyard_store::Store;

/// Runs stages on the calling thread.
pub struct InProcessStages {
    /// Store of inputs and outputs.
    pub store: Store,
    /// Stage kinds that may run.
    pub catalogue: Arc<Catalogue>,
    /// Runtime of store requests.
    pub handle: Handle,
}

impl InProcessRunner for InProcessStages {
    fn run(&self, spec: &AttemptSpec) -> Result<AttemptResult> {
        let stage = self.catalogue.stage(&spec.kind)?;
        if spec.inputs.is_empty() && spec.outputs.is_empty() {
            // Such a stage needs no files, so no scratch folder is created. A workflow of 10,000 gates takes this
            // branch for each of them.
            let mut context = context(
                spec,
                BTreeMap::new(),
                Path::new(""),
                CancelToken::default(),
                Arc::new(SilentReporter),
                Arc::new(NoCheckpoints),
            )?;
            guard_sources(spec, &UploadPaths::new(), || stage.run(&spec.config, &mut context))?;
            return self.handle.block_on(store_outputs(&self.store, spec, context));
        }
        let scratch = ScratchFolder::new()?;
        let inputs = self.handle.block_on(materialize(&self.store, spec, &scratch.path().join("inputs")))?;
        let mut context = context(
            spec,
            inputs,
            scratch.path(),
            CancelToken::default(),
            Arc::new(SilentReporter),
            Arc::new(NoCheckpoints),
        )?;
        guard_sources(spec, &UploadPaths::new(), || stage.run(&spec.config, &mut context))?;
        self.handle.block_on(store_outputs(&self.store, spec, context))
    }
}
