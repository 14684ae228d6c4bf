//! The checked plan that `spec` hands to `engine`: plain data, with every known expression replaced.
//!
//! A plan that exists is valid. What is still unknown (metrics, status, lists that come from an artifact) is typed as
//! such.

use crate::expression::Expression;
use crate::recipe::Recipe;
use crate::template::Template;
use petgraph::graph::DiGraph;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use trainyard_core::attempt::AttemptOutput;
use trainyard_core::units::Backoff;
use trainyard_core::{ArtifactKind, Cardinality, Digest, ErrorKind, Placement, StageKey};

/// A workflow, expanded and checked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of the workflow.
    pub workflow: String,
    /// Absolute path of the file.
    pub source: PathBuf,
    /// What published system the workflow shows, if it is a recipe; no digest sees it.
    pub recipe: Option<Recipe>,
    /// Values of the parameters after defaults; artifacts are left out.
    pub params: BTreeMap<String, serde_json::Value>,
    /// In topological order; ties in file order, then matrix order.
    pub nodes: Vec<Node>,
    /// Node weight = index into `nodes`.
    pub graph: DiGraph<usize, Edge>,
    /// What the workflow exports: name → (stage, output).
    pub outputs: BTreeMap<String, (StageKey, String)>,
    /// When it starts by itself, if the file says so.
    pub schedule: Option<crate::schedule::Schedule>,
    /// Identity for resume: of the expanded workflow (file and embedded files) and the params.
    pub digest: Digest,
}

/// Why one stage comes after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Edge {
    /// An artifact flows.
    Data,
    /// `needs`, or an expression that reads metrics or status.
    Order,
}

/// One stage instance.
#[derive(Debug, Clone)]
pub struct Node {
    /// Stage id with the prefixes of embedding stages, and axes.
    pub key: StageKey,
    /// `uses`, or `run`.
    pub kind: String,
    /// Version of the kind; enters the stage digest.
    pub kind_version: u32,
    /// Whether attempts get a process of their own.
    pub placement: Placement,
    /// Whether an attempt that asks for no number of CPUs gets all of its machine; otherwise it gets one.
    pub all_cpus: bool,
    /// The metric that progress shows.
    pub main_metric: Option<String>,
    /// The config without ports. A literal is complete (defaults filled) and validated; a late one is completed by the
    /// engine through the catalogue once its expressions are known.
    pub config: Template,
    /// RFC 6901 pointers of `source` values in the config → (absolute path or URL, content digest). The config holds
    /// the path; the stage digest takes the digest instead.
    pub sources: BTreeMap<String, Source>,
    /// In the order of the kind's ports, for `run` in that of the file; a port without artifacts has an empty `from`.
    pub inputs: Vec<InputBinding>,
    /// Kinds of the artifacts that it publishes, by port.
    pub outputs: BTreeMap<String, AttemptOutput>,
    /// All stages that must have ended first: data, needs, late expressions. Sorted, unique.
    pub after: Vec<StageKey>,
    /// Condition under which it runs.
    pub when: When,
    /// Set on a node that becomes many once a list is known.
    pub fan_out: Option<FanOut>,
    /// Bounds on its metrics, in file order.
    pub checks: Vec<Check>,
    /// How failed attempts are repeated.
    pub retry: Retry,
    /// Longest time of one attempt; none = unlimited.
    pub timeout: Option<Duration>,
    /// Ordered alternatives; never empty.
    pub resources: Vec<Request>,
    /// How long an attempt may wait for its machines; none = for ever.
    pub wait: Option<Duration>,
    /// The stage whose attempts it runs beside: it starts and ends with them and publishes nothing.
    pub beside: Option<StageKey>,
    /// Whether an earlier publication of the same digest is taken.
    pub cache: Cache,
    /// Environment variables of its process, by name.
    pub env: BTreeMap<String, Template>,
    /// Names that the site file must provide.
    pub secrets: Vec<String>,
    /// What the file says about it; empty if nothing.
    pub description: String,
    /// `file:line:column` of the stage.
    pub place: String,
}

/// A file or folder that an option names, by place and content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Absolute path or URL.
    pub location: String,
    /// Of its content when the plan was made.
    pub digest: Digest,
}

impl Source {
    /// Whether it lies on a disk, where its content may change after the plan was made; a URL names its revision.
    pub fn is_local(&self) -> bool {
        !self.location.contains("://")
    }
}

/// An input port and where its artifacts come from, in order.
#[derive(Debug, Clone)]
pub struct InputBinding {
    /// Name of the input port.
    pub port: String,
    /// What kind of artifact the port takes.
    pub kind: ArtifactKind,
    /// How many artifacts the port takes.
    pub cardinality: Cardinality,
    /// Producers, in the order in which the port gets them.
    pub from: Vec<OutputOf>,
}

/// An output of a stage. If `stage` is a late fan-out, it stands for all its instances in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct OutputOf {
    /// The producer.
    pub stage: StageKey,
    /// Name of its output port.
    pub output: String,
}

/// Whether a stage runs.
#[derive(Debug, Clone)]
pub enum When {
    /// Unconditionally.
    Always,
    /// Known false at plan; the text says why.
    Never(String),
    /// Reads metrics or status.
    Late(Expression),
}

/// A list that comes from an upstream table: one instance per row, the row (a map) as `item`.
#[derive(Debug, Clone)]
pub struct FanOut {
    /// The table.
    pub rows_of: OutputOf,
    /// More rows than this fail the stage.
    pub cap: u32,
}

/// What a failed check does: it fails the stage, or only warns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Fails the stage.
    Error,
    /// Is only shown.
    Warn,
}

/// A bound on a metric, evaluated on the manifest each time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// Name of the metric or comparison.
    pub metric: String,
    /// Which number, if the metric is a row of a comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<trainyard_core::Of>,
    /// Lower bound, inclusive.
    pub min: Option<f64>,
    /// Upper bound, inclusive.
    pub max: Option<f64>,
    /// What happens out of bounds.
    pub severity: Severity,
    /// What the check is for in a recipe: one of [`crate::recipe::ROLES`].
    pub role: Option<String>,
    /// Whether the check is judged on several seeds of a recipe and fails no single run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pooled: bool,
}

/// When a failed attempt is followed by another one, and after which wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// All attempts, the first included.
    pub attempts: u32,
    /// Wait before each next attempt.
    pub backoff: Backoff,
    /// Kinds that are tried again.
    pub on: Vec<ErrorKind>,
}

/// What one attempt asks of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Request {
    /// None: the default of the kind (the whole pool, or 1).
    pub cpus: Option<u32>,
    /// Bytes; 0 = does not say.
    pub memory: u64,
    /// GPUs of each machine.
    pub gpus: u32,
    /// Bytes per GPU; 0 = any.
    pub gpu_memory: u64,
    /// Machines; all or nothing.
    pub nodes: u32,
    /// All of them must be among the pool's tags.
    pub tags: Vec<String>,
}

/// Whether a published artifact of the same digest is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cache {
    /// Is taken.
    Enabled,
    /// Always runs; publishes a new generation.
    Disabled,
    /// Enters the stage digest.
    Salt(String),
}
