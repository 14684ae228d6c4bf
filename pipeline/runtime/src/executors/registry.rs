//! Registers the executor kinds of this crate, and holds the executors of a program by pool.

use super::{Executor, Launcher, LocalExecutor, LocalOptions, RayExecutor, RayOptions, SlurmExecutor, SlurmOptions};
use crate::slots::Slots;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// Arguments for building an executor, in addition to the options of its pool.
#[derive(Clone)]
pub struct ExecutorContext {
    pub pool: String,
    /// How an attempt is started as a process.
    pub launcher: Launcher,
    /// Slots of this machine, shared with other runs; with `None`, other runs are ignored.
    pub slots: Option<Slots>,
}

type ExecutorBuilder = Box<dyn Fn(&ExecutorContext, &Value) -> Result<Arc<dyn Executor>> + Send + Sync>;

pub struct ExecutorKind {
    /// Name in pool definitions.
    pub name: &'static str,
    pub summary: &'static str,
    /// Whether attempts run on this machine; if so, the executor's pools share the limits of this machine with other
    /// runs.
    pub on_this_machine: bool,
    /// JSON Schema of the options that a pool sets under `with`.
    pub schema: Value,
    /// Whether one stage can run on several machines at once, with one process on each that knows its rank
    /// ([`super::NODE`]).
    pub several_nodes: bool,
    build: ExecutorBuilder,
}

impl ExecutorKind {
    /// Creates a kind with options `O`, whose attempts run on other machines; see [`ExecutorKind::on_this_machine`].
    /// The doc comments of the options are their user documentation.
    pub fn new<O: DeserializeOwned + JsonSchema>(
        name: &'static str,
        summary: &'static str,
        build: impl Fn(&ExecutorContext, O) -> Result<Arc<dyn Executor>> + Send + Sync + 'static,
    ) -> Self {
        let schema = schemars::schema_for!(O).to_value();
        let build: ExecutorBuilder = Box::new(move |context, options| {
            let parsed = O::deserialize(options).map_err(|e| {
                Error::invalid(format!("pool `{}`: cannot read the options under `with`: {e}", context.pool))
                    .help(format!("`trainyard stages executors/{name}` prints its options"))
            })?;
            build(context, parsed)
        });
        Self { name, summary, on_this_machine: false, schema, several_nodes: false, build }
    }
    /// Declares that attempts run on this machine.
    #[must_use]
    pub fn on_this_machine(self) -> Self {
        Self { on_this_machine: true, ..self }
    }
    /// Declares that one stage can run on several machines at once.
    #[must_use]
    pub fn several_nodes(self) -> Self {
        Self { several_nodes: true, ..self }
    }
    /// Builds the executor of one pool. Errors: invalid (the options).
    pub fn build(&self, context: &ExecutorContext, options: &Value) -> Result<Arc<dyn Executor>> {
        (self.build)(context, options)
    }
}

/// Returns all executors of this crate, sorted by name.
pub fn kinds() -> Vec<ExecutorKind> {
    vec![
        ExecutorKind::new(
            LocalExecutor::NAME,
            "attempts as processes of this machine",
            |context, options: LocalOptions| {
                options.check()?;
                Ok(Arc::new(LocalExecutor::new(context.launcher.clone(), context.slots.clone(), options)))
            },
        )
        .on_this_machine(),
        ExecutorKind::new(RayExecutor::NAME, "attempts as jobs of a Ray cluster", |context, options: RayOptions| {
            Ok(Arc::new(RayExecutor::new(&context.launcher, &options)?))
        }),
        ExecutorKind::new(SlurmExecutor::NAME, "attempts as jobs of Slurm", |context, options: SlurmOptions| {
            Ok(Arc::new(SlurmExecutor::new(context.launcher.clone(), options)?))
        })
        .several_nodes(),
    ]
}

/// Executors by the name of the pool that uses them.
#[derive(Clone, Default)]
pub struct Executors(BTreeMap<String, Arc<dyn Executor>>);

impl Executors {
    /// Creates a map of executors by pool.
    pub fn new(executors: impl IntoIterator<Item = (String, Arc<dyn Executor>)>) -> Self {
        Self(executors.into_iter().collect())
    }
    /// Returns the executor of this pool. Errors: invalid (no such pool).
    pub fn get(&self, pool: &str) -> Result<Arc<dyn Executor>> {
        self.0.get(pool).cloned().ok_or_else(|| Error::invalid(format!("there is no pool `{pool}`")))
    }
    /// Iterates over all executors, by pool.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Arc<dyn Executor>)> {
        self.0.iter()
    }
}
