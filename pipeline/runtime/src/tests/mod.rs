//! Tests runs on an in-memory store or a folder, with a fake executor or real `sh` processes.

mod claims;
mod cluster;
#[cfg(target_os = "linux")]
mod detached;
mod fake;
mod follower;
mod groups;
mod healing;
mod outages;
mod processes;
mod runs;
mod sharing;
mod takeover;

pub use fake::{FakeBehavior, fake};

use crate::executors::Executors;
use crate::{InProcessRunner, Observer, OutputRowReader, RunContext, RunEnding, RunOptions};
use futures::future::{BoxFuture, FutureExt};
use petgraph::graph::DiGraph;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trainyard_core::attempt::{AttemptMessage, AttemptOutput, AttemptResult, AttemptSpec};
use trainyard_core::event::{EventRecord, RunOutcome};
use trainyard_core::units::Backoff;
use trainyard_core::{
    ArtifactKind, AttemptNumber, Cardinality, Chance, Digest, ErrorKind, KindInfo, OptionProblem, Output, Placement,
    Result, StageKey, StageKinds, SystemClock, ValidatedOptions,
};
use trainyard_engine::MachinePool;
use trainyard_spec::plan::{
    CacheMode, DEFAULT_PREEMPTIONS, InputBinding, Plan, PlanNode, ResourceRequest, Retry, RunCondition, StageOutput,
};
use trainyard_spec::template::Template;
use trainyard_store::{Store, StoreOptions};

/// Endings of runs.
pub const SUCCEEDED: RunEnding = RunEnding::Finished(RunOutcome::Succeeded);
pub const FAILED: RunEnding = RunEnding::Finished(RunOutcome::Failed);
pub const CANCELLED: RunEnding = RunEnding::Finished(RunOutcome::Cancelled);

pub struct NoKinds;

impl StageKinds for NoKinds {
    fn names(&self) -> Vec<&str> {
        Vec::new()
    }
    fn kind(&self, _: &str) -> Option<&KindInfo> {
        None
    }
    fn validate_options(&self, _: &str, options: &Value) -> Result<Box<dyn ValidatedOptions + '_>, Vec<OptionProblem>> {
        Ok(Box::new(Complete(options.clone())))
    }
}

/// Complete config without further knowledge.
struct Complete(Value);

impl ValidatedOptions for Complete {
    fn config(&self) -> &Value {
        &self.0
    }
}

/// Returns the spec of the first attempt of a stage `a` without inputs and outputs.
pub fn attempt_spec() -> AttemptSpec {
    let spec = json!({
        "format": 1, "workflow": "w", "run": "20261121-000000-000000", "stage": "a", "attempt": 1,
        "stage_digest": Digest::of(b"a"), "kind": "test", "kind_version": 1, "config": null, "inputs": {},
        "outputs": {}, "resources": {"cpus": 1},
    });
    serde_json::from_value(spec).unwrap()
}

/// Ends every attempt with empty outputs.
pub struct Empty;

pub fn empty_result(spec: &AttemptSpec) -> AttemptResult {
    let outputs = spec
        .outputs
        .iter()
        .map(|(name, o)| (name.clone(), Output::new(o.kind, Vec::new(), None, BTreeMap::new()).unwrap()));
    AttemptResult {
        format: 1,
        run: spec.run.clone(),
        stage: spec.stage.clone(),
        attempt: spec.attempt,
        stage_digest: spec.stage_digest.clone(),
        outputs: outputs.collect(),
        metrics: BTreeMap::new(),
        comparisons: Vec::new(),
        measured: BTreeMap::new(),
    }
}

impl InProcessRunner for Empty {
    fn run(&self, spec: &AttemptSpec) -> Result<AttemptResult> {
        match spec.config["panic"].as_bool() {
            Some(true) => panic!("as configured"),
            _ => Ok(empty_result(spec)),
        }
    }
}

impl OutputRowReader for Empty {
    fn rows<'a>(&'a self, _: &'a Output, _: u64) -> BoxFuture<'a, Result<Vec<Value>>> {
        async { Ok(Vec::new()) }.boxed()
    }
}

/// Observer that keeps all events.
#[derive(Default)]
pub struct Watcher {
    pub events: Mutex<Vec<EventRecord>>,
    pub messages: Mutex<Vec<AttemptMessage>>,
    pub notes: Mutex<Vec<String>>,
    pub waits: Mutex<Vec<String>>,
}

impl Observer for Watcher {
    fn event(&self, record: &EventRecord) {
        self.events.lock().unwrap().push(record.clone());
    }
    fn message(&self, _: &StageKey, _: AttemptNumber, message: &AttemptMessage) {
        self.messages.lock().unwrap().push(message.clone());
    }
    fn waits(&self, _: &StageKey, why: &str) {
        self.waits.lock().unwrap().push(why.into());
    }
    fn note(&self, text: &str) {
        self.notes.lock().unwrap().push(text.into());
    }
}

pub async fn memory() -> Store {
    Store::open("memory://", StoreOptions::default()).await.unwrap()
}

pub fn context(store: &Store, executors: Executors, watcher: &Arc<Watcher>) -> RunContext {
    RunContext {
        store: store.clone(),
        pools: vec![MachinePool::of_this_machine(2, 1 << 30, Vec::new())],
        executors,
        catalogue: Arc::new(NoKinds),
        in_process: Arc::new(Empty),
        rows: Arc::new(Empty),
        secrets: BTreeMap::new(),
        orphan_timeout: Duration::from_secs(600),
        processes: Arc::new(crate::resume::LocalMachine),
        clock: Arc::new(SystemClock::new()),
        chance: Chance::new(u64::from(std::process::id())),
        observer: watcher.clone(),
    }
}

pub fn key(name: &str) -> StageKey {
    StageKey(name.into())
}

pub fn node(name: &str, after: &[&str]) -> PlanNode {
    let of = |stage: &&str| StageOutput { stage: key(stage), output: "out".into() };
    let inputs = InputBinding {
        port: "in".into(),
        kind: ArtifactKind::Files,
        cardinality: Cardinality::Many,
        from: after.iter().map(of).collect(),
    };
    PlanNode {
        key: key(name),
        kind: "test".into(),
        kind_version: 1,
        placement: Placement::Process,
        all_cpus: false,
        main_metric: None,
        config: Template::Literal(json!({ "name": name })),
        sources: BTreeMap::new(),
        inputs: vec![inputs],
        outputs: BTreeMap::from([("out".to_string(), AttemptOutput { kind: ArtifactKind::Files, optional: false })]),
        after: after.iter().map(|a| key(a)).collect(),
        when: RunCondition::Always,
        fan_out: None,
        checks: Vec::new(),
        retry: Retry {
            attempts: 1,
            preemptions: DEFAULT_PREEMPTIONS,
            backoff: Backoff { first: Duration::ZERO, most: Duration::ZERO },
            on: vec![ErrorKind::Retryable, ErrorKind::Lost],
        },
        timeout: None,
        resources: vec![ResourceRequest::default()],
        wait: None,
        beside: None,
        cache: CacheMode::Enabled,
        env: BTreeMap::new(),
        secrets: Vec::new(),
        description: String::new(),
        place: "w.yaml:1:1".into(),
    }
}

pub fn inside(name: &str, after: &[&str]) -> PlanNode {
    PlanNode { placement: Placement::InProcess, ..node(name, after) }
}

pub fn plan(nodes: Vec<PlanNode>) -> Plan {
    let names: Vec<&StageKey> = nodes.iter().map(|n| &n.key).collect();
    let digest = Digest::of_json(&names).unwrap();
    Plan {
        workflow: "w".into(),
        source: PathBuf::from("/w.yaml"),
        recipe: None,
        params: BTreeMap::new(),
        nodes,
        graph: DiGraph::new(),
        outputs: BTreeMap::new(),
        schedule: None,
        digest,
    }
}

pub fn options() -> RunOptions {
    RunOptions::default()
}
