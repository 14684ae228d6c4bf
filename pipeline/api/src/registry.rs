//! Holds the stage kinds by name. `spec` and the engine query them through [`StageKinds`], and attempts run them.

use crate::stage::DynStage;
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{Error, KindInfo, OptionProblem, Result, StageKinds, ValidatedOptions};

/// Stage kinds, sorted by name.
#[derive(Default)]
pub struct Stages(BTreeMap<&'static str, Box<dyn DynStage>>);

impl Stages {
    /// Creates a registry. Errors: invalid, if two kinds have the same name.
    pub fn new(kinds: impl IntoIterator<Item = Box<dyn DynStage>>) -> Result<Self> {
        let mut stages = Self::default();
        for kind in kinds {
            stages.add(kind)?;
        }
        Ok(stages)
    }
    /// Adds a kind. Errors: invalid, if the name exists already.
    pub fn add(&mut self, kind: Box<dyn DynStage>) -> Result<()> {
        let name = kind.info().name;
        match self.0.insert(name, kind) {
            None => Ok(()),
            Some(_) => Err(Error::invalid(format!("two stage kinds are called `{name}`"))
                .help("choose another NAME for the added kind")),
        }
    }
    /// Finds a kind by name. Errors: invalid, if there is no such kind.
    pub fn stage(&self, name: &str) -> Result<&dyn DynStage> {
        self.0
            .get(name)
            .map(AsRef::as_ref)
            .ok_or_else(|| Error::invalid(format!("no stage kind `{name}` in this build")))
    }
    /// Returns the documentation of all kinds, sorted by name.
    pub fn infos(&self) -> impl Iterator<Item = &KindInfo> {
        self.0.values().map(|kind| kind.info())
    }
}

impl StageKinds for Stages {
    fn names(&self) -> Vec<&str> {
        self.0.keys().copied().collect()
    }
    fn kind(&self, name: &str) -> Option<&KindInfo> {
        self.0.get(name).map(|s| s.info())
    }
    fn validate_options(
        &self,
        kind: &str,
        options: &Value,
    ) -> Result<Box<dyn ValidatedOptions + '_>, Vec<OptionProblem>> {
        self.stage(kind).map_err(|e| vec![e.into()])?.settle(options)
    }
}
