//! Defines the checked plan that `spec` passes to `engine`: plain data, with every known expression replaced by its
//! value.
//!
//! The compiler returns only valid plans. Values that are still unknown (metrics, status, lists from an artifact) have
//! separate types.

use crate::expression::Expression;
use crate::recipe::RecipeHeader;
use crate::template::Template;
use petgraph::graph::DiGraph;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
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
    /// Published system that the workflow reproduces, if it is a recipe; not part of any digest.
    pub recipe: Option<RecipeHeader>,
    /// Values of the parameters after defaults; artifacts are left out.
    pub params: BTreeMap<String, serde_json::Value>,
    /// In topological order; ties in file order, then matrix order.
    pub nodes: Vec<PlanNode>,
    /// Node weight = index into `nodes`.
    pub graph: DiGraph<usize, Edge>,
    /// Exports of the workflow: name → (stage, output).
    pub outputs: BTreeMap<String, (StageKey, String)>,
    /// Schedule of the workflow, if the file has one.
    pub schedule: Option<crate::schedule::Schedule>,
    /// Digest that a resume must match: of the expanded workflow (file and embedded files) and the params.
    pub digest: Digest,
}

/// Reason for one stage to run after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Edge {
    /// An artifact is passed along.
    Data,
    /// `needs`, or an expression that reads metrics or status.
    Order,
}

/// One stage instance.
#[derive(Debug, Clone)]
pub struct PlanNode {
    /// Stage id with the prefixes of embedding stages, and axes.
    pub key: StageKey,
    /// `uses`, or `run`.
    pub kind: String,
    /// Version of the kind; enters the stage digest.
    pub kind_version: u32,
    /// Whether attempts run in a separate process.
    pub placement: Placement,
    /// Whether an attempt that does not set `cpus` gets all CPUs of its machine; otherwise it gets one.
    pub all_cpus: bool,
    /// Metric shown as progress.
    pub main_metric: Option<String>,
    /// The config without ports. A literal is complete (defaults filled) and validated; a late one is completed by the
    /// engine through the catalogue once its expressions are known.
    pub config: Template,
    /// RFC 6901 pointers of `source` values in the config → (absolute path or URL, content digest). The config holds
    /// the path; the stage digest takes the digest instead.
    pub sources: BTreeMap<String, SourceRef>,
    /// In the order of the kind's ports, for `run` in that of the file; a port without artifacts has an empty `from`.
    pub inputs: Vec<InputBinding>,
    /// Kinds of the published artifacts, by port.
    pub outputs: BTreeMap<String, AttemptOutput>,
    /// All stages that must have ended first: data, needs, late expressions. Sorted, unique.
    pub after: Vec<StageKey>,
    /// Condition for running the stage.
    pub when: RunCondition,
    /// Set if the node is expanded to many once a list is known.
    pub fan_out: Option<FanOut>,
    /// Bounds on its metrics, in file order.
    pub checks: Vec<MetricCheck>,
    /// Retries of failed attempts.
    pub retry: Retry,
    /// Timeout of one attempt; `None` = unlimited.
    pub timeout: Option<Duration>,
    /// Ordered alternatives; never empty.
    pub resources: Vec<ResourceRequest>,
    /// Maximum wait of an attempt for its machines; `None` = unlimited.
    pub wait: Option<Duration>,
    /// Lead stage: this stage starts and ends with the attempts of the lead and publishes nothing.
    pub beside: Option<StageKey>,
    /// Whether an earlier publication of the same digest is reused.
    pub cache: CacheMode,
    /// Environment variables of its process, by name.
    pub env: BTreeMap<String, Template>,
    /// Names of secrets that the site file must provide.
    pub secrets: Vec<String>,
    /// Description from the file; may be empty.
    pub description: String,
    /// `file:line:column` of the stage.
    pub place: String,
}

/// A file or folder that an option names, by location and content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRef {
    /// Absolute path or URL.
    pub location: String,
    /// Digest of its content when the plan was made.
    pub digest: Digest,
}

impl SourceRef {
    /// Whether the source is on a disk, where its content may change after the plan was made; a URL includes its
    /// revision.
    pub fn is_local(&self) -> bool {
        !self.location.contains("://")
    }
}

/// An input port and the sources of its artifacts, in order.
#[derive(Debug, Clone)]
pub struct InputBinding {
    /// Name of the input port.
    pub port: String,
    /// Kind of artifact that the port accepts.
    pub kind: ArtifactKind,
    /// Number of artifacts that the port accepts.
    pub cardinality: Cardinality,
    /// Producers, in the port's order.
    pub from: Vec<StageOutput>,
}

/// An output of a stage. If `stage` is a late fan-out, all its instances in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct StageOutput {
    /// Producer.
    pub stage: StageKey,
    /// Name of its output port.
    pub output: String,
}

/// Whether a stage runs.
#[derive(Debug, Clone)]
pub enum RunCondition {
    /// Unconditionally.
    Always,
    /// Known to be false when the plan is made; holds the reason.
    Never(String),
    /// Reads metrics or status.
    Late(Expression),
}

/// A list from an upstream table: one instance per row, with the row (a map) as `item`.
#[derive(Debug, Clone)]
pub struct FanOut {
    /// Table with the rows.
    pub rows_of: StageOutput,
    /// Maximum number of rows; with more the stage fails.
    pub cap: u32,
}

/// Effect of a failed check: it fails the stage, or only warns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckSeverity {
    /// Fails the stage.
    Error,
    /// Shows a warning.
    Warn,
}

/// A bound on a metric, evaluated on the manifest each time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricCheck {
    /// Name of the metric or comparison.
    pub metric: String,
    /// Number of the row, if the metric is a row of a comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<trainyard_core::ComparisonField>,
    /// Lower bound, inclusive.
    pub min: Option<f64>,
    /// Upper bound, inclusive.
    pub max: Option<f64>,
    /// Effect of a value out of bounds.
    pub severity: CheckSeverity,
    /// Role of the check in a recipe: one of [`crate::recipe::ROLES`].
    pub role: Option<String>,
    /// Whether the check is judged on several seeds of a recipe and fails no single run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pooled: bool,
}

/// Preemptions of a stage after which it still gets another attempt, by default.
pub const DEFAULT_PREEMPTIONS: u32 = 100;

/// Retries of failed attempts and the waits before them.
#[derive(Clone, PartialEq, Eq)]
pub struct Retry {
    /// Number of attempts, including the first. Preempted ones do not count.
    pub attempts: u32,
    /// Number of preempted attempts after which the stage still gets another one.
    pub preemptions: u32,
    /// Wait before each retry.
    pub backoff: Backoff,
    /// Kinds of errors that are retried.
    pub on: Vec<ErrorKind>,
}

/// Plan digests contain this text, so it omits what was added later while that has its default.
impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Retry");
        text.field("attempts", &self.attempts).field("backoff", &self.backoff).field("on", &self.on);
        if self.preemptions != DEFAULT_PREEMPTIONS {
            text.field("preemptions", &self.preemptions);
        }
        text.finish()
    }
}

/// Resources that one attempt requires of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ResourceRequest {
    /// CPUs; `None` is the default of the kind (all CPUs of the machine, or 1).
    pub cpus: Option<u32>,
    /// Bytes; 0 = not specified.
    pub memory: u64,
    /// GPUs of each machine.
    pub gpus: u32,
    /// Bytes per GPU; 0 = any.
    pub gpu_memory: u64,
    /// Number of machines; all or none are granted.
    pub nodes: u32,
    /// Tags that the pool must all have.
    pub tags: Vec<String>,
}

/// Whether a published artifact of the same digest is reused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheMode {
    /// Reuses it.
    Enabled,
    /// Always runs the stage; publishes a new generation.
    Disabled,
    /// Text that enters the stage digest.
    Salt(String),
}
