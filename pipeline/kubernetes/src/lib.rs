//! The executor `kubernetes`: each attempt is a Job of a Kubernetes cluster.
//!
//! It stands in a crate of its own, because the client of Kubernetes takes long to build, and is empty without the
//! feature `client`. A program that wants it says so: the feature `kubernetes` of `trainyard`, or
//! `catalogue.executor(trainyard_kubernetes::kind())`.
//!
//! No watch is kept: the states of all attempts are two lists every few seconds, selected by the attempts' keys, so the
//! API server pays for what runs and not for what is over.
#![cfg(feature = "client")]
#![warn(missing_docs)]

mod answers;
mod connection;
mod executor;
mod explain;
mod failure;
mod manifest;
mod memory;
mod names;
mod options;
mod pods;
mod requests;
mod settings;
mod state;
mod waiting;

pub use executor::Kubernetes;
pub use options::{EmptyDir, KubernetesOptions, TaintEffect, Toleration, Volume};

use std::sync::Arc;
use trainyard_core::clock::SystemClock;
use trainyard_runtime::executors::{Executor, ExecutorKind, Launching};

/// The kind of executor, for a catalogue.
pub fn kind() -> ExecutorKind {
    let build = |with: &Launching, options: KubernetesOptions| {
        let executor = Kubernetes::new(with, options, Arc::new(SystemClock::new()))?;
        Ok(Arc::new(executor) as Arc<dyn Executor>)
    };
    ExecutorKind::new(Kubernetes::NAME, "attempts as Jobs of a Kubernetes cluster", build).several_nodes()
}
