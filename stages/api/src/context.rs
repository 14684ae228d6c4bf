//! What a running stage is given: inputs as local folders, output folders, progress, metrics, checkpoints,
//! cancellation.

use crate::report::{Metric, Report};
use crate::requests::RequestCache;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use trainyard_core::attempt::{AttemptMessage, LogLevel};
use trainyard_core::{ArtifactKind, Comparison, Declared, Digest, Error, Producer, Producers, Result, Secrets, Wired};

/// Set from outside when the attempt must stop; checked by the stage at least once a second.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Asks the stage to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
    /// Whether the stage has been asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// One input artifact, fetched.
#[derive(Debug, Clone)]
pub struct InputArtifact {
    /// What the artifact is: a table, a model, a report, …
    pub kind: ArtifactKind,
    /// Content digest.
    pub digest: Digest,
    /// Stage digest of its producer.
    pub stage_digest: Digest,
    /// A folder that holds its files; read-only.
    pub folder: PathBuf,
    /// Facts that its producer described with [`StageContext::describe`].
    pub metadata: BTreeMap<String, Value>,
}

impl InputArtifact {
    /// The only `.parquet` file of a table artifact.
    pub fn parquet(&self) -> PathBuf {
        self.folder.join("data.parquet")
    }
}

/// Where messages go: the attempt's stdout, or a test's list.
pub trait Reporter: Send + Sync {
    /// Delivers one message; it never fails and must not block for long.
    fn report(&self, message: AttemptMessage);
}

/// Resume points of this stage digest.
pub trait CheckpointStore: Send + Sync {
    /// The newest complete one: its step and a folder with its files.
    fn latest(&self) -> Result<Option<(u64, PathBuf)>>;
    /// Stores all files of `folder` as the resume point of `step`; returns when it is durable. Older ones beyond two go
    /// away. A store that is at fault is no error: it costs this resume point, not the stage.
    fn save(&self, step: u64, folder: &Path) -> Result<()>;
}

/// Everything a stage may touch.
pub struct StageContext {
    /// Number of threads that may compute.
    pub cpus: usize,
    /// Set when the stage must stop; see [`StageContext::stop_if_cancelled`].
    pub cancel: CancelToken,
    /// Receives progress, logs and points of learning curves.
    pub reporter: Arc<dyn Reporter>,
    /// Resume points of this stage.
    pub checkpoints: Arc<dyn CheckpointStore>,
    /// Answers of services, by what was asked.
    pub requests: Arc<dyn RequestCache>,
    /// An empty folder for temporary files; removed after the attempt.
    pub scratch: PathBuf,
    /// Port → artifacts, in order.
    pub inputs: BTreeMap<String, Vec<InputArtifact>>,
    /// Port → an existing empty folder to fill. A table port is filled with `data.parquet`.
    pub output_folders: BTreeMap<String, PathBuf>,
    /// Final metrics, under the names that the stage declares.
    pub metrics: BTreeMap<String, f64>,
    /// Metrics of two models or arms, with their differences.
    pub comparisons: Vec<Comparison>,
    /// Times and rates of this attempt; no digest sees them.
    pub measured: BTreeMap<String, Value>,
    /// Port → facts that downstream stages read.
    pub metadata: BTreeMap<String, BTreeMap<String, Value>>,
    /// Environment of `run:` stages.
    pub env: BTreeMap<String, String>,
    /// The secrets that the options name.
    pub secrets: Secrets,
}

impl StageContext {
    /// The artifact of a `one` port.
    pub fn input(&self, port: &str) -> Result<&InputArtifact> {
        self.optional(port).ok_or_else(|| {
            Error::invalid(format!("input `{port}` is missing"))
                .help(format!("give `with: {{{port}: ${{{{ stages.<id>.<port> }}}}}}`"))
        })
    }
    /// The artifact of an `optional` port.
    pub fn optional(&self, port: &str) -> Option<&InputArtifact> {
        self.many(port).first()
    }
    /// The artifacts of a `many` port.
    pub fn many(&self, port: &str) -> &[InputArtifact] {
        self.inputs.get(port).map_or(&[], Vec::as_slice)
    }
    /// What every input port got; the facts are what the producers described.
    pub fn wired(&self) -> Wired {
        let mut wired = Wired::default();
        for (port, list) in &self.inputs {
            wired.wire(port, list.iter().map(|artifact| artifact.metadata.clone()).collect());
        }
        wired
    }
    /// The producers of every input, as far as a running stage knows them: only their number.
    pub fn producers(&self) -> Producers {
        self.inputs.iter().map(|(port, list)| (port.clone(), vec![Producer::default(); list.len()])).collect()
    }
    /// The folder of an output port.
    pub fn output(&self, port: &str) -> Result<&Path> {
        self.output_folders
            .get(port)
            .map(PathBuf::as_path)
            .ok_or_else(|| Error::bug(format!("this stage has no output `{port}`")))
    }
    /// The Parquet file of a table output.
    pub fn output_parquet(&self, port: &str) -> Result<PathBuf> {
        Ok(self.output(port)?.join("data.parquet"))
    }
    /// A final metric. Not a number is refused when the manifest is published.
    pub fn metric(&mut self, name: impl Into<String>, value: f64) {
        self.metrics.insert(name.into(), value);
    }
    /// Writes `report.json` with every metric and comparison of this stage, each with the unit that the stage declares.
    pub fn write_report(&self, port: &str, mut report: Report, declared: &Declared) -> Result<()> {
        for (name, value) in &self.metrics {
            let detail = || Metric { value: *value, detail: true, ..Metric::default() };
            report.metrics.entry(name.clone()).or_insert_with(detail);
        }
        for (name, metric) in &mut report.metrics {
            metric.unit = declared.metric(name).map(|m| m.unit.to_string()).unwrap_or_default();
        }
        report.comparisons.clone_from(&self.comparisons);
        report.write(self.output(port)?)
    }
    /// A row of a comparison.
    pub fn comparison(&mut self, row: Comparison) {
        self.comparisons.push(row);
    }
    /// A fact of this attempt that no digest sees (seconds, tokens per second).
    pub fn measure(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.measured.insert(name.into(), value.into());
    }
    /// A fact about an output that downstream stages and `check` read.
    pub fn describe(&mut self, port: &str, key: &str, value: impl Into<Value>) {
        self.metadata.entry(port.to_string()).or_default().insert(key.to_string(), value.into());
    }
    /// Reports that `done` of `total` units are finished, with the name and value of one metric to show.
    pub fn progress(&self, done: u64, total: u64, unit: &str, metric: Option<(&str, f64)>) {
        let metric = metric.map(|(n, v)| (n.to_string(), v));
        self.reporter.report(AttemptMessage::Progress { done, total, unit: unit.to_string(), metric });
    }
    /// A point of a learning curve.
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
