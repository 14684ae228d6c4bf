//! Defines the context of a running stage: inputs as local folders, output folders, progress, metrics, checkpoints,
//! cancellation.

use crate::report::{ReportMetric, StageReport};
use crate::requests::{RequestCache, RequestsInMemory};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use trainyard_core::attempt::{AttemptMessage, LogLevel};
use trainyard_core::{
    ArtifactKind, Comparison, DeclaredMetrics, Digest, Error, Producer, Producers, Result, Secrets, WiredInputs,
};

/// Cancellation flag, set from outside when the attempt must stop; the stage checks it at least once a second.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Requests the stage to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
    /// Whether a stop was requested.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// One input artifact, fetched.
#[derive(Debug, Clone)]
pub struct InputArtifact {
    /// Kind of the artifact: a table, a model, a report, …
    pub kind: ArtifactKind,
    /// Content digest.
    pub digest: Digest,
    /// Stage digest of the producer.
    pub stage_digest: Digest,
    /// Read-only folder with the files.
    pub folder: PathBuf,
    /// Facts that the producer described with [`StageContext::describe`].
    pub metadata: BTreeMap<String, Value>,
}

impl InputArtifact {
    /// Returns the path of the only `.parquet` file of a table artifact.
    pub fn parquet(&self) -> PathBuf {
        self.folder.join("data.parquet")
    }
}

/// Receiver of messages: the attempt's stdout, or a test's list.
pub trait Reporter: Send + Sync {
    /// Delivers one message; never fails and must not block for long.
    fn report(&self, message: AttemptMessage);
}

/// Reporter that drops all messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilentReporter;

impl Reporter for SilentReporter {
    fn report(&self, _: AttemptMessage) {}
}

/// Resume points of this stage digest.
pub trait CheckpointStore: Send + Sync {
    /// Returns the step of the newest complete resume point and a folder with its files; `None` if there is no resume
    /// point.
    fn latest(&self) -> Result<Option<(u64, PathBuf)>>;
    /// Stores all files of `folder` as the resume point of `step`; returns when it is durable. Keeps the two newest
    /// points. A store failure is not an error: it loses this resume point, not the stage.
    fn save(&self, step: u64, folder: &Path) -> Result<()>;
}

/// Checkpoint store that drops all resume points; for tests and benches.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiscardingCheckpoints;

impl CheckpointStore for DiscardingCheckpoints {
    fn latest(&self) -> Result<Option<(u64, PathBuf)>> {
        Ok(None)
    }
    fn save(&self, _: u64, _: &Path) -> Result<()> {
        Ok(())
    }
}

/// Context of a running stage: the only data and services that it may access.
pub struct StageContext {
    /// Number of compute threads.
    pub cpus: usize,
    /// Cancellation flag; see [`StageContext::stop_if_cancelled`].
    pub cancel: CancelToken,
    /// Receiver of progress, logs and points of learning curves.
    pub reporter: Arc<dyn Reporter>,
    /// Resume points of this stage.
    pub checkpoints: Arc<dyn CheckpointStore>,
    /// Responses of services, by the digest of the request.
    pub requests: Arc<dyn RequestCache>,
    /// Empty folder for temporary files; removed after the attempt.
    pub scratch: PathBuf,
    /// Port → artifacts, in order.
    pub inputs: BTreeMap<String, Vec<InputArtifact>>,
    /// Port → existing empty folder for the output. A table port requires the file `data.parquet`.
    pub output_folders: BTreeMap<String, PathBuf>,
    /// Final metrics, by declared name.
    pub metrics: BTreeMap<String, f64>,
    /// Metrics of two models or arms, with their differences.
    pub comparisons: Vec<Comparison>,
    /// Times and rates of this attempt; not part of any digest.
    pub measured: BTreeMap<String, Value>,
    /// Port → facts that downstream stages read.
    pub metadata: BTreeMap<String, BTreeMap<String, Value>>,
    /// Environment of `run:` stages.
    pub env: BTreeMap<String, String>,
    /// Secrets named by the options.
    pub secrets: Secrets,
}

impl StageContext {
    /// Creates a context with one compute thread and without inputs, outputs, environment and secrets. Responses of
    /// services are kept in memory.
    pub fn new(scratch: PathBuf, reporter: Arc<dyn Reporter>, checkpoints: Arc<dyn CheckpointStore>) -> Self {
        Self {
            cpus: 1,
            cancel: CancelToken::default(),
            reporter,
            checkpoints,
            requests: Arc::new(RequestsInMemory::default()),
            scratch,
            inputs: BTreeMap::new(),
            output_folders: BTreeMap::new(),
            metrics: BTreeMap::new(),
            comparisons: Vec::new(),
            measured: BTreeMap::new(),
            metadata: BTreeMap::new(),
            env: BTreeMap::new(),
            secrets: Secrets::default(),
        }
    }
    /// Returns the artifact of a `one` port. Errors: invalid, if the port has no artifact.
    pub fn input(&self, port: &str) -> Result<&InputArtifact> {
        self.optional(port).ok_or_else(|| {
            Error::invalid(format!("input `{port}` is missing"))
                .help(format!("add `with: {{{port}: \"${{{{ stages.<id>.<port> }}}}\"}}`"))
        })
    }
    /// Returns the artifact of an `optional` port; `None` if the port has no artifact.
    pub fn optional(&self, port: &str) -> Option<&InputArtifact> {
        self.many(port).first()
    }
    /// Returns the artifacts of a `many` port, in order; empty for an unknown port.
    pub fn many(&self, port: &str) -> &[InputArtifact] {
        self.inputs.get(port).map_or(&[], Vec::as_slice)
    }
    /// Returns the artifacts of every input port with the facts that their producers described.
    pub fn wired(&self) -> WiredInputs {
        let mut wired = WiredInputs::default();
        for (port, list) in &self.inputs {
            wired.wire(port, list.iter().map(|artifact| artifact.metadata.clone()).collect());
            list.iter().for_each(|artifact| wired.set_kind(port, artifact.kind));
        }
        wired
    }
    /// Returns the producers of every input; a running stage knows only their number.
    pub fn producers(&self) -> Producers {
        self.inputs.iter().map(|(port, list)| (port.clone(), vec![Producer::default(); list.len()])).collect()
    }
    /// Returns the folder of an output port. Errors: bug, if the stage has no such port.
    pub fn output(&self, port: &str) -> Result<&Path> {
        self.output_folders
            .get(port)
            .map(PathBuf::as_path)
            .ok_or_else(|| Error::bug(format!("this stage has no output `{port}`")))
    }
    /// Returns the names of the output ports.
    pub fn output_ports(&self) -> impl Iterator<Item = &str> {
        self.output_folders.keys().map(String::as_str)
    }
    /// Returns the path of the Parquet file of a table output.
    pub fn output_parquet(&self, port: &str) -> Result<PathBuf> {
        Ok(self.output(port)?.join("data.parquet"))
    }
    /// Sets a final metric. A value that is not a number is rejected when the manifest is published.
    pub fn metric(&mut self, name: impl Into<String>, value: f64) {
        self.metrics.insert(name.into(), value);
    }
    /// Writes `report.json` with every metric and comparison of this stage, each with its declared unit.
    pub fn write_report(&self, port: &str, mut report: StageReport, declared: &DeclaredMetrics) -> Result<()> {
        for (name, value) in &self.metrics {
            let detail = || ReportMetric { value: *value, detail: true, ..ReportMetric::default() };
            report.metrics.entry(name.clone()).or_insert_with(detail);
        }
        for (name, metric) in &mut report.metrics {
            metric.unit = declared.metric(name).map(|m| m.unit.to_string()).unwrap_or_default();
        }
        report.comparisons.clone_from(&self.comparisons);
        report.write(self.output(port)?)
    }
    /// Adds a row of a comparison.
    pub fn comparison(&mut self, row: Comparison) {
        self.comparisons.push(row);
    }
    /// Records a fact of this attempt that is not part of any digest (seconds, tokens per second).
    pub fn measure(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.measured.insert(name.into(), value.into());
    }
    /// Describes an output by a fact that downstream stages and `check` read.
    pub fn describe(&mut self, port: &str, key: &str, value: impl Into<Value>) {
        self.metadata.entry(port.to_string()).or_default().insert(key.to_string(), value.into());
    }
    /// Reports that `done` of `total` units are finished, with the name and value of one metric to show.
    pub fn progress(&self, done: u64, total: u64, unit: &str, metric: Option<(&str, f64)>) {
        let metric = metric.map(|(n, v)| (n.to_string(), v));
        self.reporter.report(AttemptMessage::Progress { done, total, unit: unit.to_string(), metric });
    }
    /// Reports a point of a learning curve.
    pub fn curve(&self, name: &str, step: u64, value: f64) {
        self.reporter.report(AttemptMessage::Metric { name: name.to_string(), step, value });
    }
    /// Writes an info line to the log of the attempt.
    pub fn log(&self, text: impl Into<String>) {
        self.reporter.report(AttemptMessage::Log { level: LogLevel::Info, text: text.into() });
    }
    /// Writes a warning to the log of the attempt.
    pub fn warn(&self, text: impl Into<String>) {
        self.reporter.report(AttemptMessage::Log { level: LogLevel::Warn, text: text.into() });
    }
    /// Returns an error of kind cancelled once the attempt must stop.
    pub fn stop_if_cancelled(&self) -> Result<()> {
        if self.cancel.is_cancelled() { Err(Error::cancelled("the attempt was cancelled")) } else { Ok(()) }
    }
}
