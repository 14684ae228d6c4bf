//! The executors of this crate, one line each, and those of a program by name.

use super::{Executor, Launcher, Local};
use crate::slots::Slots;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// What executors are built with.
#[derive(Clone)]
pub struct Launching {
    /// How an attempt is started as a process.
    pub launcher: Launcher,
    /// This machine's slots, shared by every run of this user; with `None` other runs are ignored.
    pub slots: Option<Slots>,
}

type Build = Box<dyn Fn(&Launching) -> Arc<dyn Executor> + Send + Sync>;

/// A kind of executor, as pools name it.
pub struct ExecutorKind {
    /// As pools name it.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Its attempts run on this machine: its pools count toward what the runs of this user may use of it together.
    pub on_this_machine: bool,
    build: Build,
}

impl ExecutorKind {
    /// A kind whose attempts run on other machines; see [`ExecutorKind::on_this_machine`].
    pub fn new(
        name: &'static str,
        summary: &'static str,
        build: impl Fn(&Launching) -> Arc<dyn Executor> + Send + Sync + 'static,
    ) -> Self {
        Self { name, summary, on_this_machine: false, build: Box::new(build) }
    }
    /// Its attempts run on this machine.
    #[must_use]
    pub fn on_this_machine(self) -> Self {
        Self { on_this_machine: true, ..self }
    }
}

/// All executors of this crate, sorted by name.
pub fn kinds() -> Vec<ExecutorKind> {
    vec![
        ExecutorKind::new(Local::NAME, "attempts as processes of this machine", |with| {
            Arc::new(Local::new(with.launcher.clone(), with.slots.clone()))
        })
        .on_this_machine(),
    ]
}

/// Executors by name, as pools ask for them.
#[derive(Clone, Default)]
pub struct Executors(BTreeMap<&'static str, Arc<dyn Executor>>);

impl Executors {
    /// Registers executors under their names.
    pub fn new(executors: Vec<Arc<dyn Executor>>) -> Self {
        Self(executors.into_iter().map(|e| (e.name(), e)).collect())
    }
    /// One of each kind.
    pub fn build(kinds: &[ExecutorKind], with: &Launching) -> Self {
        Self(kinds.iter().map(|kind| (kind.name, (kind.build)(with))).collect())
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
