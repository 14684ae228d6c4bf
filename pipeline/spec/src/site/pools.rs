//! Reads the pools of a site file: machines, their resources, and the options of their executors.

use crate::diagnostic::{Diagnostic, suggest};
use crate::options::KindOptions;
use crate::plan::ResourceRequest;
use crate::read::{BoundContent, BoundNode, MapFields, ValueReader};
use crate::template::Template;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::time::Duration;
use trainyard_core::attempt::FIRST_HEARTBEAT;
use trainyard_core::resources::{ResourceAmounts, missing_tags, shortfalls};
use trainyard_core::units::format_duration;

/// An executor in this build, as pools name it.
#[derive(Debug, Clone, Copy)]
pub struct ExecutorOptions<'a> {
    pub name: &'a str,
    /// JSON Schema of the options in a pool's `with`.
    pub schema: &'a Value,
    /// Whether one stage can run on several machines at once.
    pub several_nodes: bool,
}

/// Equal machines that one executor can reach.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SitePool {
    /// Name, unique in the file; used in messages and journals.
    pub name: String,
    /// Executor that starts attempts here.
    pub executor: String,
    /// Executor options as in the file, a map; validated by schema.
    pub with: Value,
    /// Path of the `trainyard` program on these machines; `None` uses the path of this program.
    pub program: Option<String>,
    /// CPUs per machine.
    pub cpus: u32,
    /// Bytes per machine; 0 = unknown, accepts any request.
    pub memory: u64,
    /// GPUs per machine.
    pub gpus: Vec<SiteGpu>,
    /// Number of machines.
    pub nodes: u32,
    /// Whether one stage can use several of them.
    pub several_nodes: bool,
    /// Tags that requests may require.
    pub tags: Vec<String>,
    /// Priority; higher is tried first.
    pub priority: i32,
    /// Time in which a started attempt must send its first heartbeat.
    pub first_heartbeat: Duration,
}

/// One GPU of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SiteGpu {
    /// Index in the machine's driver, from 0.
    pub index: u32,
    /// Bytes; 0 = unknown, accepts any request.
    pub memory: u64,
}

impl SitePool {
    /// Creates a pool of one machine without tags.
    pub fn local(cpus: u32, memory: u64, gpus: Vec<SiteGpu>) -> Self {
        Self {
            name: "local".into(),
            executor: "local".into(),
            with: Value::Object(Map::new()),
            program: None,
            cpus,
            memory,
            gpus,
            nodes: 1,
            several_nodes: false,
            tags: Vec::new(),
            priority: 0,
            first_heartbeat: FIRST_HEARTBEAT,
        }
    }
    /// Returns the reasons why this pool, even when idle, cannot meet the request; empty if it can.
    pub fn misfit(&self, request: &ResourceRequest) -> Vec<String> {
        let mut reasons: Vec<String> =
            missing_tags(&request.tags, &self.tags).into_iter().map(|missing| format!("it {missing}")).collect();
        let large = self.gpus.iter().filter(|g| g.memory == 0 || g.memory >= request.gpu_memory).count();
        let total =
            ResourceAmounts { cpus: self.cpus, memory: self.memory, gpus: u32::try_from(large).unwrap_or(u32::MAX) };
        let need = ResourceAmounts { cpus: request.cpus.unwrap_or(1), memory: request.memory, gpus: request.gpus };
        reasons.extend(shortfalls(need, request.gpu_memory, total, total));
        if request.nodes.max(1) > self.nodes {
            reasons.push(format!("needs {} machines; it has {}", request.nodes, self.nodes));
        } else if request.nodes > 1 && !self.several_nodes {
            let (nodes, executor) = (request.nodes, &self.executor);
            reasons.push(format!("needs {nodes} machines; its executor `{executor}` runs a stage on one"));
        }
        reasons
    }
}

/// Shortest patience for a first heartbeat: the time between two heartbeats.
const SHORTEST_PATIENCE: Duration = Duration::from_secs(10);

const KEYS: [&str; 12] = [
    "name",
    "executor",
    "with",
    "program",
    "cpus",
    "memory",
    "gpus",
    "gpu_memory",
    "nodes",
    "tags",
    "priority",
    "first_heartbeat",
];

/// Reads all pools, sorted by priority. Names must be unique.
pub(super) fn read(
    pools: &[BoundNode],
    this_machine: &SitePool,
    executors: &[ExecutorOptions<'_>],
    reader: &mut ValueReader<'_>,
) -> Vec<SitePool> {
    let mut found = Vec::new();
    for bound in pools {
        found.extend(read_pool(bound, this_machine, executors, reader).map(|pool| (pool, bound.span)));
    }
    let mut seen = BTreeSet::new();
    for (pool, span) in &found {
        if !seen.insert(pool.name.as_str()) {
            let d = Diagnostic::error("duplicate-name", *span, format!("two pools are called `{}`", pool.name));
            reader.report(d);
        }
    }
    let mut pools: Vec<SitePool> = found.into_iter().map(|(pool, _)| pool).collect();
    pools.sort_by_key(|p| std::cmp::Reverse(p.priority));
    pools
}

fn read_pool(
    bound: &BoundNode,
    this_machine: &SitePool,
    executors: &[ExecutorOptions<'_>],
    reader: &mut ValueReader<'_>,
) -> Option<SitePool> {
    let fields = reader.map(bound, "a pool", &KEYS)?;
    let Some(name) = fields.get("name").map(|b| reader.string(b, "`name`")) else {
        reader.report(Diagnostic::error("missing-key", bound.span, "a pool has no `name`"));
        return None;
    };
    let executor = fields.get("executor").map_or(Some("local".to_string()), |b| read_executor(b, executors, reader))?;
    let base = if executor == "local" { this_machine.clone() } else { SitePool::local(1, 0, Vec::new()) };
    let known = executors.iter().find(|known| known.name == executor);
    let with = known.and_then(|known| read_options(known, fields.get("with"), bound, reader));
    let gpu_memory = fields.get("gpu_memory").and_then(|b| reader.size(b, "`gpu_memory`")).unwrap_or(0);
    Some(SitePool {
        name: name?,
        executor,
        with: with.unwrap_or(base.with),
        program: fields.get("program").and_then(|b| reader.string(b, "`program`")),
        cpus: fields.get("cpus").and_then(|b| reader.count(b, "`cpus`", 1)).unwrap_or(base.cpus),
        memory: fields.get("memory").and_then(|b| reader.size(b, "`memory`")).unwrap_or(base.memory),
        gpus: read_gpus(&fields, gpu_memory, reader).unwrap_or(base.gpus),
        nodes: fields.get("nodes").and_then(|b| reader.count(b, "`nodes`", 1)).unwrap_or(1),
        several_nodes: known.is_some_and(|known| known.several_nodes),
        tags: fields.get("tags").and_then(|b| reader.strings(b, "`tags`")).unwrap_or_default(),
        priority: fields.get("priority").and_then(|b| reader.integer(b, "`priority`", -1_000, 1_000)).unwrap_or(0)
            as i32,
        first_heartbeat: fields
            .get("first_heartbeat")
            .and_then(|b| read_patience(b, reader))
            .unwrap_or(base.first_heartbeat),
    })
}

/// Reads the time in which a first heartbeat must arrive.
fn read_patience(bound: &BoundNode, reader: &mut ValueReader<'_>) -> Option<Duration> {
    let patience = reader.duration(bound, "`first_heartbeat`")?;
    if patience < SHORTEST_PATIENCE {
        let (given, least) = (format_duration(patience), format_duration(SHORTEST_PATIENCE));
        let text = format!("`first_heartbeat` is {given}, but must be at least {least}");
        reader.report(Diagnostic::error("out-of-range", bound.span, text));
        return None;
    }
    Some(patience)
}

/// Reads an executor's name. An unknown name is kept, so that the rest of its pool is checked as well.
fn read_executor(bound: &BoundNode, known: &[ExecutorOptions<'_>], reader: &mut ValueReader<'_>) -> Option<String> {
    let name = reader.string(bound, "`executor`")?;
    if !known.iter().any(|known| known.name == name) {
        let d = Diagnostic::error("unknown-executor", bound.span, format!("this build has no executor `{name}`"));
        reader.report(d.help_if(suggest(&name, known.iter().map(|known| known.name))));
    }
    Some(name)
}

/// Reads executor options and validates them by schema, even if the pool omits them: some may be required.
fn read_options(
    executor: &ExecutorOptions<'_>,
    with: Option<&BoundNode>,
    pool: &BoundNode,
    reader: &mut ValueReader<'_>,
) -> Option<Value> {
    let entries = match with.map(|with| &with.content) {
        None => Vec::new(),
        Some(BoundContent::Map(entries)) => entries.iter().collect(),
        Some(_) => {
            reader.wrong(with?, "`with`", &format!("a map of options of `{}`", executor.name));
            return None;
        }
    };
    let options = KindOptions::of(executor.schema);
    let (config, read) = options.read(&entries, reader.diagnostics);
    let config = Template::Literal(Template::Map(config).as_literal()?);
    let found = options.validate(&config, &read, with.unwrap_or(pool), &format!("`{}`", executor.name));
    reader.diagnostics.extend(found);
    config.as_literal()
}

/// Reads `gpus: 2`, `gpus: [0, 3]`, or `gpus: [{index: 0, memory: 80GiB}]`.
fn read_gpus(fields: &MapFields<'_>, memory: u64, reader: &mut ValueReader<'_>) -> Option<Vec<SiteGpu>> {
    let bound = fields.get("gpus")?;
    if let BoundContent::List(items) = &bound.content {
        return Some(items.iter().filter_map(|b| read_gpu(b, memory, reader)).collect());
    }
    let count = reader.integer(bound, "`gpus`", 0, 1_024)?;
    Some((0..count as u32).map(|index| SiteGpu { index, memory }).collect())
}

fn read_gpu(bound: &BoundNode, memory: u64, reader: &mut ValueReader<'_>) -> Option<SiteGpu> {
    if matches!(bound.content, BoundContent::Map(_)) {
        let fields = reader.map(bound, "a gpu", &["index", "memory"])?;
        let memory = fields.get("memory").map_or(Some(memory), |b| reader.size(b, "`memory`"))?;
        let index = fields.get("index").and_then(|b| reader.integer(b, "`index`", 0, 1_023))?;
        return Some(SiteGpu { index: index as u32, memory });
    }
    reader.integer(bound, "a gpu's index", 0, 1_023).map(|i| SiteGpu { index: i as u32, memory })
}
