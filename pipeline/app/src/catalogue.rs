//! Which stage kinds, parts and executors a program has: one value that check, schema, pages and runs all read.

#[cfg(test)]
mod added_tests;
mod builder;
mod lookup;
#[cfg(test)]
mod tests;

pub use builder::Builder;
pub use lookup::Entry;

use crate::tracking::Trackers;
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_api::{AnyFamily, DynStage, Family, PartPage, Stages};
use trainyard_core::{Error, KindInfo, OptionProblem, Result, Settled, StageKinds};
use trainyard_data::export::ExportFormat;
use trainyard_envs::Toolbox;
use trainyard_envs::environments::Environments;
use trainyard_learn::compose;
use trainyard_lm::backend::registry::Backends;
use trainyard_runtime::executors::ExecutorKind;

/// Everything that workflow and site files may name. Made by [`Catalogue::builder`]; it does not change afterwards.
pub struct Catalogue {
    stages: Stages,
    parts: trainyard_train::Parts,
    data: Arc<trainyard_data::Parts>,
    executors: Vec<ExecutorKind>,
    trackers: Trackers,
}

impl Catalogue {
    /// All families of parts, sorted by folder.
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
    /// The pages of one family; none if there is no such folder.
    pub fn pages(&self, folder: &str) -> Option<Vec<PartPage>> {
        let family = self.families().into_iter().find(|family| family.folder() == folder)?;
        let mut pages = family.pages();
        if folder == self.parts.learn.algorithms.folder {
            for page in &mut pages {
                // A composition of this program that did not expand would have failed its tests.
                page.expands_to = compose::expand(&self.parts.learn, json!({ "algorithm": page.kind })).ok();
            }
        }
        Some(pages)
    }
    /// The environments that stages may play.
    pub fn environments(&self) -> &Environments {
        &self.parts.envs.environments
    }
    /// What computes models.
    pub fn backends(&self) -> &Backends {
        &self.parts.backends
    }
    /// The tools, formats and verifiers that environments and problems may name.
    pub fn toolbox(&self) -> &Toolbox {
        &self.parts.envs.toolbox
    }
    /// Sorted by name.
    pub fn stages(&self) -> impl Iterator<Item = &KindInfo> {
        self.stages.infos()
    }
    /// Errors: invalid, if there is no such kind.
    pub fn stage(&self, name: &str) -> Result<&dyn DynStage> {
        self.stages.stage(name)
    }
    /// What may follow runs.
    pub fn trackers(&self) -> &Trackers {
        &self.trackers
    }
    /// The formats of exports.
    pub fn export_formats(&self) -> &Family<&'static dyn ExportFormat> {
        &self.data.export
    }
    /// Sorted by name.
    pub fn executors(&self) -> &[ExecutorKind] {
        &self.executors
    }
    /// Errors: invalid, if there is no such executor.
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
    fn settle(&self, kind: &str, options: &Value) -> Result<Box<dyn Settled + '_>, Vec<OptionProblem>> {
        self.stages.settle(kind, options)
    }
}
