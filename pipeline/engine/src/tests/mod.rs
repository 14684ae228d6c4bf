//! Tests the engine on handwritten plans with a simulated store and executor. Invariants are checked after every step.

mod cases;
mod fan_out;
mod groups;
mod healing;
mod large;
mod late;
mod placement;
mod preemption;
mod progress;
mod publication;
mod random;
mod recovery;
mod simulation;

use crate::{EngineSetup, MachinePool, ResumeState};
use petgraph::graph::DiGraph;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::AttemptOutput;
use trainyard_core::event::Selection;
use trainyard_core::units::Backoff;
use trainyard_core::{
    ArtifactKind, Cardinality, Digest, ErrorKind, KindInfo, OptionProblem, Placement, Result, RunId, StageKey,
    StageKinds, ValidatedOptions,
};
use trainyard_spec::expression::Expression;
use trainyard_spec::plan::{
    CacheMode, CheckSeverity, DEFAULT_PREEMPTIONS, FanOut, InputBinding, MetricCheck, Plan, PlanNode, ResourceRequest,
    Retry, RunCondition, StageOutput,
};
use trainyard_spec::template::Template;

/// Catalog without kinds: late configs are taken as they are.
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

/// Complete config without further information.
pub struct Complete(pub Value);

impl ValidatedOptions for Complete {
    fn config(&self) -> &Value {
        &self.0
    }
}

pub fn key(name: &str) -> StageKey {
    StageKey(name.into())
}

/// Returns a process stage with one output `out`, whose config contains its name, so that digests differ.
pub fn node(name: &str) -> PlanNode {
    PlanNode {
        key: key(name),
        kind: "test".into(),
        kind_version: 1,
        placement: Placement::Process,
        all_cpus: false,
        main_metric: None,
        config: Template::Literal(json!({ "name": name })),
        sources: BTreeMap::new(),
        inputs: Vec::new(),
        outputs: BTreeMap::from([("out".to_string(), AttemptOutput { kind: ArtifactKind::Files, optional: false })]),
        after: Vec::new(),
        when: RunCondition::Always,
        fan_out: None,
        checks: Vec::new(),
        retry: Retry {
            attempts: 3,
            preemptions: DEFAULT_PREEMPTIONS,
            backoff: Backoff { first: Duration::from_secs(5), most: Duration::from_secs(60) },
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

/// Shorthands for building nodes.
pub trait Build: Sized {
    fn reads(self, from: &[&str]) -> Self;
    fn reads_as(self, port: &str, cardinality: Cardinality, from: &[&str]) -> Self;
    fn needs(self, stages: &[&str]) -> Self;
    fn when(self, condition: &str) -> Self;
    fn check(self, metric: &str, min: f64) -> Self;
    fn over(self, stage: &str, cap: u32) -> Self;
}

impl Build for PlanNode {
    fn reads(self, from: &[&str]) -> Self {
        self.reads_as("in", Cardinality::Many, from)
    }
    fn reads_as(mut self, port: &str, cardinality: Cardinality, from: &[&str]) -> Self {
        let of = |stage: &&str| StageOutput { stage: key(stage), output: "out".into() };
        self.inputs.push(InputBinding {
            port: port.into(),
            kind: ArtifactKind::Files,
            cardinality,
            from: from.iter().map(of).collect(),
        });
        self.needs(from)
    }
    fn needs(mut self, stages: &[&str]) -> Self {
        self.after.extend(stages.iter().map(|s| key(s)));
        self.after.sort();
        self.after.dedup();
        self
    }
    fn when(mut self, condition: &str) -> Self {
        self.when = RunCondition::Late(Expression::parse(condition).unwrap());
        self
    }
    fn check(mut self, metric: &str, min: f64) -> Self {
        self.checks.push(MetricCheck {
            metric: metric.into(),
            of: None,
            min: Some(min),
            max: None,
            severity: CheckSeverity::Error,
            role: None,
            pooled: false,
        });
        self
    }
    fn over(mut self, stage: &str, cap: u32) -> Self {
        self.fan_out = Some(FanOut { rows_of: StageOutput { stage: key(stage), output: "out".into() }, cap });
        self.needs(&[stage])
    }
}

pub fn plan(nodes: Vec<PlanNode>) -> Plan {
    Plan {
        workflow: "w".into(),
        source: PathBuf::from("/w.yaml"),
        recipe: None,
        params: BTreeMap::new(),
        nodes,
        graph: DiGraph::new(),
        outputs: BTreeMap::new(),
        schedule: None,
        digest: Digest::of(b"plan"),
    }
}

/// Returns a setup with one machine with two CPUs.
pub fn setup() -> EngineSetup {
    EngineSetup {
        run: RunId("20261121-000000-000000".into()),
        selection: Selection::default(),
        fail_fast: false,
        pools: vec![MachinePool::of_this_machine(2, 1 << 30, Vec::new())],
        catalogue: Arc::new(NoKinds),
        secrets: BTreeMap::new(),
        fsync: false,
        store_outage: Duration::from_secs(60),
        orphan_timeout: Duration::from_secs(600),
        resumed: ResumeState::default(),
    }
}
