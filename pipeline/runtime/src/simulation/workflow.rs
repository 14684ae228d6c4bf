//! Builds random workflows: graphs with retries, late fan-outs, conditions, checks, stages with equal digests and
//! failing stages. The behavior of a stage is in its config, so it does not depend on the order of execution.

use crate::tests::{key, node, plan};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_core::attempt::AttemptOutput;
use trainyard_core::chance::PhiloxRng;
use trainyard_core::units::Backoff;
use trainyard_core::{ArtifactKind, Chance, Digest, ErrorKind};
use trainyard_engine::{MachinePool, PoolMachine};
use trainyard_spec::expression::Expression;
use trainyard_spec::plan::{
    CacheMode, CheckSeverity, DEFAULT_PREEMPTIONS, FanOut, MetricCheck, Plan, PlanNode, ResourceRequest, Retry,
    RunCondition, StageOutput,
};
use trainyard_spec::template::Template;

/// Pools: attempts of `FAR` outlive their engine, those of `NEAR` end with it.
pub const FAR: &str = "far";
pub const NEAR: &str = "near";

/// Returns the plan of a seed.
pub fn random(seed: u64) -> Plan {
    let mut draw = Chance::new(seed).at("workflow", &[]);
    let count = 2 + draw.below(8) as usize;
    let mut nodes: Vec<PlanNode> = Vec::new();
    for at in 0..count {
        let next = stage(at, &nodes, &mut draw);
        nodes.push(next);
    }
    if draw.below(2) == 0 {
        nodes.extend(fan_out(&mut draw));
    }
    let mut plan = plan(nodes);
    plan.digest = Digest::of(&seed.to_le_bytes());
    plan
}

/// Returns the machines of a seed.
pub fn pools(seed: u64) -> Vec<MachinePool> {
    let mut draw = Chance::new(seed).at("pools", &[]);
    let pool = |name: &str, cpus| MachinePool {
        name: name.into(),
        executor: name.into(),
        priority: 0,
        tags: vec![name.into()],
        several_nodes: false,
        first_heartbeat: trainyard_core::attempt::FIRST_HEARTBEAT,
        machines: vec![PoolMachine { name: "m".into(), cpus, memory: 0, gpus: Vec::new() }],
    };
    vec![pool(FAR, 2 + draw.below(6) as u32), pool(NEAR, 2 + draw.below(3) as u32)]
}

fn stage(at: usize, before: &[PlanNode], draw: &mut PhiloxRng) -> PlanNode {
    let mut next = node(&format!("s{at}"), &[]);
    let upstream: Vec<usize> = (0..at).filter(|_| draw.below(3) == 0).collect();
    for from in upstream {
        let name = before[from].key.0.clone();
        next = if draw.below(3) > 0 { reads(next, &name) } else { needs(next, &name) };
    }
    let fails = if draw.below(5) == 0 { 1 + draw.below(2) } else { 0 };
    next.config = Template::Literal(json!({
        "name": next.key.0, "steps": 1 + draw.below(5), "seconds": 1 + draw.below(12), "fails": fails,
    }));
    next.resources = vec![request(draw)];
    if at % 3 == 2 {
        // After an attempt that its pool lost, the next one runs in the other pool.
        next.resources.push(elsewhere(&next.resources[0]));
    }
    next.retry = retry();
    match draw.below(12) {
        0 => next.cache = CacheMode::Disabled,
        1 => next.checks = vec![check(0.3)],
        2 if at > 0 => {
            next = needs(next, "s0");
            next.when = RunCondition::Late(Expression::parse("stages.s0.metrics.accuracy > 0.5").unwrap());
        }
        // A twin: has the digest of the first stage if the inputs agree.
        3 if at > 0 => next.config = before[0].config.clone(),
        4 => next.config = Template::Literal(json!({ "name": next.key.0, "steps": 1, "seconds": 3, "fails": 99 })),
        5 => next.timeout = Some(Duration::from_secs(300)),
        _ => {}
    }
    next
}

/// Returns a table, a stage per row, and a stage that reads their outputs.
fn fan_out(draw: &mut PhiloxRng) -> Vec<PlanNode> {
    let mut list = node("list", &[]);
    let rows = 1 + draw.below(4);
    list.config = Template::Literal(json!({ "name": "list", "steps": 1, "seconds": 2, "fails": 0, "rows": rows }));
    list.outputs = BTreeMap::from([("out".into(), AttemptOutput { kind: ArtifactKind::Table, optional: false })]);
    let mut each = needs(node("each", &[]), "list");
    each.fan_out = Some(FanOut { rows_of: StageOutput { stage: key("list"), output: "out".into() }, cap: 100 });
    each.config = Template::Map(BTreeMap::from([
        ("name".to_string(), Template::Literal(json!("each"))),
        ("steps".to_string(), Template::Literal(json!(1 + draw.below(3)))),
        ("seconds".to_string(), Template::Literal(json!(1 + draw.below(9)))),
        ("fails".to_string(), Template::Expression(Expression::parse("item.fails").unwrap())),
        ("row".to_string(), Template::Expression(Expression::parse("item.row").unwrap())),
    ]));
    let mut all = reads(node("all", &[]), "each");
    all.config = Template::Literal(json!({ "name": "all", "steps": 1, "seconds": 4, "fails": 0 }));
    let mut nodes = vec![list, each, all];
    for node in &mut nodes {
        node.resources = vec![request(draw)];
        node.retry = retry();
    }
    nodes
}

fn reads(mut node: PlanNode, from: &str) -> PlanNode {
    let of = StageOutput { stage: key(from), output: "out".into() };
    node.inputs[0].from.push(of);
    needs(node, from)
}

fn needs(mut node: PlanNode, stage: &str) -> PlanNode {
    node.after.push(key(stage));
    node.after.sort();
    node.after.dedup();
    node
}

fn request(draw: &mut PhiloxRng) -> ResourceRequest {
    let pool = if draw.below(3) > 0 { FAR } else { NEAR };
    ResourceRequest { cpus: Some(1 + draw.below(2) as u32), tags: vec![pool.into()], ..ResourceRequest::default() }
}

/// Returns the same request for the other pool.
fn elsewhere(request: &ResourceRequest) -> ResourceRequest {
    let pool = if request.tags == [FAR] { NEAR } else { FAR };
    ResourceRequest { tags: vec![pool.into()], ..request.clone() }
}

fn retry() -> Retry {
    Retry {
        attempts: 4,
        preemptions: DEFAULT_PREEMPTIONS,
        backoff: Backoff { first: Duration::from_secs(1), most: Duration::from_secs(20) },
        on: vec![ErrorKind::Retryable, ErrorKind::Lost],
    }
}

fn check(min: f64) -> MetricCheck {
    let metric = "accuracy".into();
    MetricCheck {
        metric,
        of: None,
        min: Some(min),
        max: None,
        severity: CheckSeverity::Error,
        role: None,
        pooled: false,
    }
}
