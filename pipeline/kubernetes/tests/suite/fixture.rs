//! Provides the fixture of the tests: a server, a store that its Pods see, and an executor.

use crate::server::Server;
use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;
use trainyard_core::attempt::{AttemptMessage, AttemptSpec};
use trainyard_core::clock::ManualClock;
use trainyard_engine::{Grant, MachineShare};
use trainyard_kubernetes::KubernetesExecutor;
use trainyard_runtime::executors::{
    AttemptExit, AttemptReporter, AttemptState, AttemptTask, Executor, ExecutorContext, Handle, Launcher,
};
use trainyard_store::{Store, StoreOptions};

pub struct KubernetesFixture {
    pub server: Server,
    pub store: Store,
    pub clock: Arc<ManualClock>,
    pub executor: KubernetesExecutor,
    _folder: TempDir,
}

impl KubernetesFixture {
    /// Creates a fixture whose Pods stay unchanged; `options` override the default options.
    pub async fn with(options: Value) -> Self {
        Self::on(Server::still().await, options).await
    }
    pub async fn on(server: Server, options: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store").to_str().unwrap(), StoreOptions::default()).await.unwrap();
        let clock = Arc::new(ManualClock::at_millis(1_795_234_530_000));
        let mut all = json!({
            "image": "trainyard", "kubeconfig": server.kubeconfig(), "shared_filesystem": true,
            "volumes": [{"name": "store", "mount": folder.path(), "claim": "store"}],
        });
        for (name, value) in options.as_object().unwrap() {
            all[name] = value.clone();
        }
        let launcher = Launcher::new(std::env::current_exe().unwrap());
        let context = ExecutorContext { pool: "cluster".into(), launcher, slots: None };
        let executor = KubernetesExecutor::new(&context, serde_json::from_value(all).unwrap(), clock.clone()).unwrap();
        Self { server, store, clock, executor, _folder: folder }
    }
    pub fn task(&self, stage: &str) -> AttemptTask {
        self.task_on(stage, 1)
    }
    /// Builds the task of an attempt on several nodes.
    pub fn task_on(&self, stage: &str, nodes: usize) -> AttemptTask {
        let digest = "0".repeat(64);
        let spec: AttemptSpec = serde_json::from_value(json!({
            "format": 1, "workflow": "agent", "run": "20261122-100000-0000000", "stage": stage, "attempt": 1,
            "stage_digest": digest, "kind": "noop", "kind_version": 1, "config": {}, "inputs": {}, "outputs": {},
            "resources": {"cpus": 2, "memory": 1_u64 << 30, "gpus": []},
        }))
        .unwrap();
        let share = MachineShare { machine: "node".into(), cpus: 2, memory: 1 << 30, gpus: Vec::new() };
        AttemptTask {
            spec: Arc::new(spec),
            grant: Grant::new("cluster", "kubernetes", vec![share; nodes]),
            store: self.store.clone(),
            folder: format!("runs/2026-11/20261122-100000-0000000/attempts/{stage}/1"),
            timeout: None,
            reports: Arc::new(KubernetesReportStub),
        }
    }
    pub async fn submit(&self, task: &AttemptTask) -> Handle {
        let mut handles = self.executor.submit(std::slice::from_ref(task)).await;
        handles.pop().unwrap().unwrap()
    }
    pub async fn state(&self, handle: &Handle) -> AttemptState {
        self.executor.poll(std::slice::from_ref(handle)).await.unwrap().pop().unwrap()
    }
    /// Returns why a pending attempt waits.
    #[track_caller]
    pub fn why(state: AttemptState) -> String {
        match state {
            AttemptState::Pending { why } => why.unwrap_or_default(),
            other => panic!("it does not wait: {other:?}"),
        }
    }
    #[track_caller]
    pub fn ended(state: AttemptState) -> AttemptExit {
        match state {
            AttemptState::Ended(ended) => ended,
            other => panic!("it has not ended: {other:?}"),
        }
    }
    /// Places and runs the Pods of the only Job.
    pub fn run_pods(&self) -> Vec<String> {
        let pods = self.server.pod_names();
        for pod in &pods {
            self.server.place(pod, "gpu-3");
            self.server.container(pod, "Running", json!({"running": {}}));
        }
        pods
    }
}

struct KubernetesReportStub;

impl AttemptReporter for KubernetesReportStub {
    fn message(&self, _: AttemptMessage) {}
    fn raw(&self, _: &str) {}
    fn waits(&self, _: Option<&str>) {}
}
