//! Holds the stage kinds, parts and executors of a program in one value, which `check`, `schema`, the documentation
//! pages and runs all read.

#[cfg(test)]
mod added_tests;
mod builder;
mod lookup;
#[cfg(test)]
mod tests;

pub use builder::CatalogueBuilder;
pub use lookup::CatalogueEntry;

use crate::tracking::Trackers;
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_api::{AnyFamily, DynStage, Family, PartPage, Stages};
use trainyard_core::{Error, KindInfo, OptionProblem, Result, StageKinds, ValidatedOptions};
use trainyard_data::export::ExportFormat;
use trainyard_envs::Toolbox;
use trainyard_envs::environments::Environments;
use trainyard_learn::compose;
use trainyard_lm::backend::registry::Backends;
use trainyard_runtime::executors::ExecutorKind;

/// Registry of everything that workflow and site files may name. [`Catalogue::builder`] starts its construction; it is
/// immutable afterwards.
pub struct Catalogue {
    stages: Stages,
    parts: trainyard_train::TrainParts,
    data: Arc<trainyard_data::DataParts>,
    executors: Vec<ExecutorKind>,
    trackers: Trackers,
}

impl Catalogue {
    /// Returns all families of parts, sorted by folder.
    pub fn families(&self) -> Vec<&dyn AnyFamily> {
        let mut families: Vec<&dyn AnyFamily> = Vec::new();
        families.extend(self.parts.learn.families());
        families.extend(self.parts.envs.families());
        families.extend(self.data.families());
        families.push(&*self.parts.backends);
        families.push(&self.trackers);
        families.sort_by_key(|family| family.folder());
        families
    }
    /// Returns the pages of one family, or `None` if no family has this folder.
    pub fn pages(&self, folder: &str) -> Option<Vec<PartPage>> {
        let family = self.families().into_iter().find(|family| family.folder() == folder)?;
        let mut pages = family.pages();
        if folder == self.parts.learn.algorithms.folder {
            for page in &mut pages {
                // Tests expand every built-in composition, so only a composition that a program added can fail.
                page.expands_to = compose::expand(&self.parts.learn, json!({ "algorithm": page.kind })).ok();
            }
        }
        Some(pages)
    }
    /// Returns the environments that stages may use.
    pub fn environments(&self) -> &Environments {
        &self.parts.envs.environments
    }
    /// Returns the model backends.
    pub fn backends(&self) -> &Backends {
        &self.parts.backends
    }
    /// Returns the tools, formats and verifiers that environments and problems may name.
    pub fn toolbox(&self) -> &Toolbox {
        &self.parts.envs.toolbox
    }
    /// Returns the stage kinds, sorted by name.
    pub fn stages(&self) -> impl Iterator<Item = &KindInfo> {
        self.stages.infos()
    }
    /// Returns the stage of this kind. Errors: invalid, if the kind is unknown.
    pub fn stage(&self, name: &str) -> Result<&dyn DynStage> {
        self.stages.stage(name)
    }
    /// Returns the trackers that site files may name.
    pub fn trackers(&self) -> &Trackers {
        &self.trackers
    }
    /// Returns the formats of exports.
    pub fn export_formats(&self) -> &Family<&'static dyn ExportFormat> {
        &self.data.export
    }
    /// Returns the executors, sorted by name.
    pub fn executors(&self) -> &[ExecutorKind] {
        &self.executors
    }
    /// Returns the executor of this name. Errors: invalid, if the name is unknown.
    pub fn executor(&self, name: &str) -> Result<&ExecutorKind> {
        self.executors.iter().find(|kind| kind.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.executors.iter().map(|kind| kind.name).collect();
            Error::invalid(format!("no executor `{name}` in this build"))
                .help(format!("pools may use {}", names.join(", ")))
        })
    }
}

impl StageKinds for Catalogue {
    fn names(&self) -> Vec<&str> {
        self.stages.names()
    }
    fn kind(&self, name: &str) -> Option<&KindInfo> {
        self.stages.kind(name)
    }
    fn validate_options(
        &self,
        kind: &str,
        options: &Value,
    ) -> Result<Box<dyn ValidatedOptions + '_>, Vec<OptionProblem>> {
        self.stages.validate_options(kind, options)
    }
}
