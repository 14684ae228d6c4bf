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
    pub workflow: String,
    /// Absolute path of the file.
    pub source: PathBuf,
    /// What published system the workflow shows, if it is a recipe; no digest sees it.
    pub recipe: Option<Recipe>,
    pub params: BTreeMap<String, serde_json::Value>,
    /// In topological order; ties in file order, then matrix order.
    pub nodes: Vec<Node>,
    /// Node weight = index into `nodes`.
    pub graph: DiGraph<usize, Edge>,
    /// What the workflow exports: name → (stage, output).
    pub outputs: BTreeMap<String, (StageKey, String)>,
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
    pub key: StageKey,
    /// `uses`, or `run`.
    pub kind: String,
    pub kind_version: u32,
    pub placement: Placement,
    pub all_cpus: bool,
    pub main_metric: Option<String>,
    /// The config without ports. A literal is complete (defaults filled) and validated; a late one is completed by the
    /// engine through the catalogue once its expressions are known.
    pub config: Template,
    /// RFC 6901 pointers of `source` values in the config → (absolute path or URL, content digest). The config holds
    /// the path; the stage digest takes the digest instead.
    pub sources: BTreeMap<String, Source>,
    pub inputs: Vec<InputBinding>,
    pub outputs: BTreeMap<String, AttemptOutput>,
    /// All stages that must have ended first: data, needs, late expressions. Sorted, unique.
    pub after: Vec<StageKey>,
    pub when: When,
    /// Set on a node that becomes many once a list is known.
    pub fan_out: Option<FanOut>,
    pub checks: Vec<Check>,
    pub retry: Retry,
    pub timeout: Option<Duration>,
    /// Ordered alternatives; never empty.
    pub resources: Vec<Request>,
    pub cache: Cache,
    pub env: BTreeMap<String, Template>,
    /// Names that the site file must provide.
    pub secrets: Vec<String>,
    pub description: String,
    /// `file:line:column` of the stage.
    pub place: String,
}

/// A file or folder that an option names, by place and content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub location: String,
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
    pub port: String,
    pub kind: ArtifactKind,
    pub cardinality: Cardinality,
    pub from: Vec<OutputOf>,
}

/// An output of a stage. If `stage` is a late fan-out, it stands for all its instances in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct OutputOf {
    pub stage: StageKey,
    pub output: String,
}

/// Whether a stage runs.
#[derive(Debug, Clone)]
pub enum When {
    Always,
    /// Known false at plan; the text says why.
    Never(String),
    /// Reads metrics or status.
    Late(Expression),
}

/// A list that comes from an upstream table: one instance per row, the row (a map) as `item`.
#[derive(Debug, Clone)]
pub struct FanOut {
    pub rows_of: OutputOf,
    /// More rows than this fail the stage.
    pub cap: u32,
}

/// What a failed check does: it fails the stage, or only warns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warn,
}

/// A bound on a metric, evaluated on the manifest each time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    pub metric: String,
    /// Which number, if the metric is a row of a comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<trainyard_core::Of>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub severity: Severity,
    /// `mechanism` or `guard` in recipes.
    pub role: Option<String>,
}

/// When a failed attempt is followed by another one, and after which wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// All attempts, the first included.
    pub attempts: u32,
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
    pub gpus: u32,
    /// Bytes per GPU; 0 = any.
    pub gpu_memory: u64,
    /// Machines; all or nothing.
    pub nodes: u32,
    pub tags: Vec<String>,
}

/// Whether a published artifact of the same digest is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cache {
    Enabled,
    /// Always runs; publishes a new generation.
    Disabled,
    /// Enters the stage digest.
    Salt(String),
}
