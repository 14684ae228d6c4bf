//! Holds amounts of resources under Ray's names: `CPU`, `GPU`, `memory` in bytes, and custom resources.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use trainyard_core::units::format_size;
use trainyard_engine::MachineShare;

pub(super) const CPU: &str = "CPU";
pub(super) const GPU: &str = "GPU";
/// Memory, in bytes.
pub(super) const MEMORY: &str = "memory";

/// Resources that a job requests, or that a node has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct RayResources(pub(super) BTreeMap<String, f64>);

impl RayResources {
    /// Returns the request of an attempt: its share of a machine, and custom resources.
    pub(super) fn of(share: &MachineShare, custom: &Self) -> Self {
        let standard = [(CPU, f64::from(share.cpus)), (GPU, share.gpus.len() as f64), (MEMORY, share.memory as f64)];
        let standard =
            standard.into_iter().filter(|(_, amount)| *amount > 0.0).map(|(name, amount)| (name.to_string(), amount));
        Self(standard.chain(custom.0.clone()).collect())
    }
    pub(super) fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(0.0)
    }
    /// Returns the resources that are neither CPUs nor GPUs nor memory.
    pub(super) fn custom(&self) -> BTreeMap<&str, f64> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount)).filter(|(name, _)| !is_own(name)).collect()
    }
    /// Returns the names of resources that `other` requests and this does not have.
    pub(super) fn lacks(&self, other: &Self) -> Vec<String> {
        other.0.iter().filter(|(name, amount)| self.get(name) < **amount).map(|(name, _)| name.clone()).collect()
    }
    /// Returns only the resources that a job may request, without those by which Ray identifies its nodes.
    pub(super) fn without_internals(&self) -> Self {
        let internal = |name: &str| name.starts_with("node:") || name == "object_store_memory";
        Self(self.0.iter().filter(|(name, _)| !internal(name)).map(|(n, a)| (n.clone(), *a)).collect())
    }
}

fn is_own(name: &str) -> bool {
    [CPU, GPU, MEMORY].contains(&name)
}

impl fmt::Display for RayResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        for (at, (name, amount)) in self.0.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            match name.as_str() {
                MEMORY => write!(f, "{comma}{name}: {}", format_size(*amount as u64))?,
                _ => write!(f, "{comma}{name}: {amount}")?,
            }
        }
        Ok(())
    }
}
