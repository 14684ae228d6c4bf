//! Who answers for the user's code: a program here, or a service elsewhere.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;
use trainyard_core::{OptionProblem, Result, Secrets};
use trainyard_process::{Hello, Log, Peer, ProgramOptions, Workers};

/// Options that say who answers. What is asked, and what an answer means, is the same for all of them.
pub trait PeerOptions:
    Debug + Clone + Default + PartialEq + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
    /// As written after `kind:`.
    const KIND: &'static str;
    /// Everything wrong; pointers are relative to the options.
    fn problems(&self) -> Vec<OptionProblem>;
    /// Whoever answers. Nothing is asked yet. Errors: invalid (the options), those of a program's files.
    fn open(&self, hello: Hello<'_>, secrets: &Secrets, log: &Log) -> Result<Arc<dyn Peer>>;
}

impl PeerOptions for ProgramOptions {
    const KIND: &'static str = "process";
    fn problems(&self) -> Vec<OptionProblem> {
        Self::problems(self)
    }
    fn open(&self, hello: Hello<'_>, _: &Secrets, log: &Log) -> Result<Arc<dyn Peer>> {
        Ok(Workers::start(self, hello, log.clone())?)
    }
}
