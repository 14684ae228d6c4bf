//! All stage kinds of a build: each room offers a list, the command line joins them. The only implementation of [`Catalogue`].

use crate::stage::DynStage;
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{Catalogue, Declared, Error, Facts, KindInfo, MetricRead, OptionProblem, Producers, Result, Wired};

/// Stage kinds by name.
#[derive(Default)]
pub struct Registry(BTreeMap<&'static str, Box<dyn DynStage>>);

impl Registry {
    /// Joins the rooms' lists; two kinds of one name are a bug.
    pub fn new(rooms: impl IntoIterator<Item = Vec<Box<dyn DynStage>>>) -> Result<Self> {
        let mut kinds = BTreeMap::new();
        for stage in rooms.into_iter().flatten() {
            let name = stage.info().name;
            if kinds.insert(name, stage).is_some() {
                return Err(Error::bug(format!("two stage kinds are called `{name}`")));
            }
        }
        Ok(Self(kinds))
    }
    pub fn stage(&self, name: &str) -> Result<&dyn DynStage> {
        self.0
            .get(name)
            .map(AsRef::as_ref)
            .ok_or_else(|| Error::invalid(format!("no stage kind `{name}` in this build")))
    }
}

impl Catalogue for Registry {
    fn names(&self) -> Vec<&str> {
        self.0.keys().copied().collect()
    }
    fn kind(&self, name: &str) -> Option<&KindInfo> {
        self.0.get(name).map(|s| s.info())
    }
    fn validate(&self, kind: &str, config: &Value) -> Vec<OptionProblem> {
        self.0.get(kind).map_or_else(Vec::new, |s| s.validate(config))
    }
    fn validate_inputs(&self, kind: &str, config: &Value, inputs: &Wired) -> Vec<OptionProblem> {
        self.0.get(kind).map_or_else(Vec::new, |s| s.validate_inputs(config, inputs))
    }
    fn facts(&self, kind: &str, config: &Value, inputs: &Wired) -> BTreeMap<String, Facts> {
        self.0.get(kind).map_or_else(BTreeMap::new, |s| s.facts(config, inputs))
    }
    fn declared(&self, kind: &str, config: &Value, producers: &Producers) -> Declared {
        self.0.get(kind).map_or_else(Declared::default, |s| s.declared(config, producers))
    }
    fn metrics_read(&self, kind: &str, config: &Value, producers: &Producers) -> Vec<MetricRead> {
        self.0.get(kind).map_or_else(Vec::new, |s| s.metrics_read(config, producers))
    }
    fn complete(&self, kind: &str, config: &Value) -> Result<Value> {
        self.stage(kind)?.complete(config)
    }
}
