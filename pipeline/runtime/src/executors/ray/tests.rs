//! Tests the executor against a small server with recorded responses of Ray 2.60.0 (`fixtures/`).

mod answers;
mod jobs;
mod options;
mod server;
mod submissions;

use super::{RayExecutor, RayOptions};
use crate::executors::{AttemptReporter, AttemptTask, Handle, Launcher};
use serde_json::json;
use std::sync::Arc;
use trainyard_core::attempt::{AttemptMessage, AttemptSpec};
use trainyard_engine::{Grant, MachineShare};
use trainyard_store::{Store, StoreOptions};

/// Path of the program on the nodes.
const PROGRAM: &str = "/opt/trainyard's/bin/trainyard";

struct RayReportStub;

impl AttemptReporter for RayReportStub {
    fn message(&self, _: AttemptMessage) {}
    fn raw(&self, _: &str) {}
    fn waits(&self, _: Option<&str>) {}
}

/// Creates an executor of the cluster at this address, with further options.
fn ray(address: &str, more: serde_json::Value) -> trainyard_core::Result<RayExecutor> {
    let mut options = json!({"address": address});
    options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let options: RayOptions = serde_json::from_value(options).unwrap();
    RayExecutor::new(&Launcher::new(PROGRAM), &options)
}

/// Builds the first attempt of this stage, with a share of one node.
async fn task(stage: &str, share: MachineShare) -> AttemptTask {
    let spec: AttemptSpec = serde_json::from_value(json!({
        "format": 1, "workflow": "agent", "run": "20261122-120000-abcdef", "stage": stage, "attempt": 1,
        "stage_digest": "0".repeat(64), "kind": "sft", "kind_version": 1, "config": {}, "inputs": {}, "outputs": {},
        "resources": {"cpus": share.cpus}
    }))
    .unwrap();
    AttemptTask {
        folder: format!("runs/2026-11/{}/attempts/{stage}/1", spec.run.0),
        spec: Arc::new(spec),
        grant: Grant::new("ray", "ray", vec![share]),
        store: Store::open("memory://", StoreOptions::default()).await.unwrap(),
        timeout: None,
        reports: Arc::new(RayReportStub),
    }
}

fn share(cpus: u32) -> MachineShare {
    MachineShare { machine: "ray".into(), cpus, memory: 0, gpus: Vec::new() }
}

fn handle(id: &str) -> Handle {
    Handle(id.into())
}
