//! Defines the trait of the two kinds of user-defined code: local programs and remote services.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;
use trainyard_core::{OptionProblem, Result, Secrets};
use trainyard_process::{Hello, ProgramLog, ProgramOptions, ProgramService, WorkerPool};

/// Options that name a program or service. Requests and the meaning of responses are the same for both.
pub trait CustomCodeOptions:
    Debug + Clone + Default + PartialEq + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
    /// Name after `kind:`.
    const KIND: &'static str;
    /// Returns all problems; pointers are relative to the options.
    fn problems(&self) -> Vec<OptionProblem>;
    /// Returns the program or service, which receives `hello` before the first request. Sends no request yet. Errors:
    /// invalid (the options), those of a program's files.
    fn open(&self, hello: Hello<'_>, secrets: &Secrets, log: &ProgramLog) -> Result<Arc<dyn ProgramService>>;
}

impl CustomCodeOptions for ProgramOptions {
    const KIND: &'static str = "process";
    fn problems(&self) -> Vec<OptionProblem> {
        Self::problems(self)
    }
    fn open(&self, hello: Hello<'_>, _: &Secrets, log: &ProgramLog) -> Result<Arc<dyn ProgramService>> {
        Ok(WorkerPool::start(self, hello, log.clone())?)
    }
}
