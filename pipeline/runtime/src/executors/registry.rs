//! The executors of this build, one line each.

use super::{Executor, Launcher, Local};
use crate::slots::Slots;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// Executors by name, as pools ask for them.
#[derive(Clone, Default)]
pub struct Executors(BTreeMap<&'static str, Arc<dyn Executor>>);

/// All executors of this build. `slots` are this machine's, shared by every run of this user; with `None` other runs
/// are ignored.
pub fn standard(launcher: &Launcher, slots: Option<&Slots>) -> Executors {
    Executors::new(vec![
        Arc::new(Local::new(launcher.clone(), slots.cloned())), // local
    ])
}

impl Executors {
    /// Registers executors under their names.
    pub fn new(executors: Vec<Arc<dyn Executor>>) -> Self {
        Self(executors.into_iter().map(|e| (e.name(), e)).collect())
    }
    /// The executor of this name. Errors: invalid, listing the executors of this build.
    pub fn get(&self, name: &str) -> Result<Arc<dyn Executor>> {
        self.0.get(name).cloned().ok_or_else(|| {
            Error::invalid(format!("no executor `{name}` in this build"))
                .help(format!("pools may use {}", self.names().join(", ")))
        })
    }
    /// Their names, sorted.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.keys().copied().collect()
    }
}
