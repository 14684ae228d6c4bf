//! Provides the executor `kubernetes`, which runs each attempt as a Job of a Kubernetes cluster
//! (`docs/design/0012-executors.md`).
//!
//! The executor is a separate crate because the Kubernetes client takes long to build. The crate is empty without the
//! feature `client`. A program enables it with the feature `kubernetes` of `trainyard`, or with
//! `catalogue.executor(trainyard_kubernetes::kind())`.
//!
//! The executor uses no watch requests: every few seconds it lists Jobs and Pods, selected by the keys of the live
//! attempts. The load on the API server therefore depends on running attempts, not on finished ones.
#![cfg(feature = "client")]
#![warn(missing_docs)]

mod connection;
mod errors;
mod executor;
mod explain;
mod failure;
mod manifest;
mod names;
mod observation;
mod options;
mod pods;
mod requests;
mod settings;
mod tracker;
mod wait_reason;

pub use executor::KubernetesExecutor;
pub use options::{EmptyDir, KubernetesOptions, TaintEffect, Toleration, Volume};

use std::sync::Arc;
use trainyard_core::clock::SystemClock;
use trainyard_runtime::executors::{Executor, ExecutorContext, ExecutorKind};

/// Returns the executor kind for a catalogue.
pub fn kind() -> ExecutorKind {
    let build = |context: &ExecutorContext, options: KubernetesOptions| {
        let executor = KubernetesExecutor::new(context, options, Arc::new(SystemClock::new()))?;
        Ok(Arc::new(executor) as Arc<dyn Executor>)
    };
    ExecutorKind::new(KubernetesExecutor::NAME, "attempts as Jobs of a Kubernetes cluster", build).several_nodes()
}
