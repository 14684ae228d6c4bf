//! Collects the samples of a log: gives each a unique epoch, and computes the header and the list of summaries.
//!
//! The memory is that of the summaries, about a kilobyte per sample.

use super::sample::ID_LENGTH;
use super::summary::summary;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::digest::Hasher;
use trainyard_core::{Error, Result};
use trainyard_tables::OrderedValue;

/// Time of a log, since rows record no time.
const TIME: &str = "1970-01-01T00:00:00+00:00";

/// A file of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    pub name: String,
    pub json: String,
}

/// Number and sum of the values of a score.
#[derive(Debug, Clone, Default)]
struct ScoreTotal {
    count: i64,
    sum: f64,
    is_verdict: bool,
}

/// The log of the samples so far.
#[derive(Default)]
pub struct SampleLog {
    count: i64,
    /// Epochs of each problem.
    epochs: BTreeMap<String, BTreeSet<i64>>,
    environments: BTreeSet<String>,
    models: BTreeSet<String>,
    /// Scores by name, the first seen first.
    scores: Vec<(String, ScoreTotal)>,
    /// Numbers of tokens by model.
    usage: BTreeMap<String, BTreeMap<String, i64>>,
    summaries: Vec<OrderedValue>,
    digest: Hasher,
}

impl SampleLog {
    /// Adds a sample, and returns its file. A number that another rollout of the problem has is replaced by the next
    /// free one.
    pub fn add(&mut self, sample: OrderedValue) -> Result<LogFile> {
        let id = text(&sample, "id");
        let taken = self.epochs.entry(id.clone()).or_default();
        let wanted = integer(&sample, "epoch");
        let epoch = (wanted..).find(|epoch| taken.insert(*epoch)).unwrap_or(wanted);
        let sample = with_epoch(sample, epoch);
        self.count += 1;
        if let Some(environment) = sample.get("metadata").map(|metadata| text(metadata, "environment")) {
            self.environments.insert(environment);
        }
        if let Some(output) = sample.get("output") {
            self.models.insert(text(output, "model"));
        }
        for (name, score) in sample.get("scores").map_or(&[][..], OrderedValue::keys) {
            self.add_score(name, score.get("value"));
        }
        for (model, usage) in sample.get("model_usage").map_or(&[][..], OrderedValue::keys) {
            let total = self.usage.entry(model.clone()).or_default();
            usage.keys().iter().for_each(|(name, _)| *total.entry(name.clone()).or_default() += integer(usage, name));
        }
        self.summaries.push(summary(&sample));
        let json = sample.to_json()?;
        self.digest.update(json.as_bytes());
        Ok(LogFile { name: format!("samples/{id}_epoch_{epoch}.json"), json })
    }

    fn add_score(&mut self, name: &str, value: Option<&OrderedValue>) {
        let (value, is_verdict) = match value {
            Some(OrderedValue::Float(value)) => (*value, false),
            Some(OrderedValue::Text(value)) => (if value == "C" { 1.0 } else { 0.0 }, true),
            _ => return,
        };
        let at = self.scores.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.scores.push((name.to_string(), ScoreTotal { is_verdict, ..ScoreTotal::default() }));
            self.scores.len() - 1
        });
        let total = &mut self.scores[at].1;
        total.count += 1;
        total.sum += value;
    }

    /// Returns the files that follow the samples: the summaries and the header. Errors: data, if there is no sample.
    pub fn finish(self) -> Result<[LogFile; 2]> {
        if self.count == 0 {
            return Err(Error::data("a log has no sample").help("export an artifact with rows"));
        }
        let header = self.header().to_json()?;
        let summaries = OrderedValue::List(self.summaries).to_json()?;
        Ok([
            LogFile { name: "summaries.json".into(), json: summaries },
            LogFile { name: "header.json".into(), json: header },
        ])
    }

    fn header(&self) -> OrderedValue {
        let empty = || OrderedValue::Object(Vec::new());
        let plan = OrderedValue::object([
            ("name", "plan".into()),
            ("steps", OrderedValue::List(Vec::new())),
            ("config", empty()),
        ]);
        let usage = self.usage.iter().map(|(model, counts)| {
            let counts = counts.iter().map(|(name, count)| (name.clone(), OrderedValue::Int(*count))).collect();
            (model.clone(), OrderedValue::Object(counts))
        });
        let stats = OrderedValue::object([
            ("started_at", TIME.into()),
            ("completed_at", TIME.into()),
            ("model_usage", OrderedValue::Object(usage.collect())),
            ("role_usage", empty()),
        ]);
        OrderedValue::object([
            ("version", OrderedValue::Int(2)),
            ("status", "success".into()),
            ("eval", self.spec()),
            ("plan", plan),
            ("results", self.results()),
            ("stats", stats),
        ])
    }

    /// Returns what was evaluated. Its ids are parts of the digest of the samples.
    fn spec(&self) -> OrderedValue {
        let empty = || OrderedValue::Object(Vec::new());
        let digest = self.digest.clone().finish();
        let id = |part: usize| OrderedValue::from(&digest.as_str()[part * 21..part * 21 + ID_LENGTH]);
        let task = only(&self.environments, "trajectories");
        let ids = self.epochs.keys().map(|id| OrderedValue::from(id.as_str())).collect();
        let dataset = OrderedValue::object([
            ("name", task.into()),
            ("samples", OrderedValue::Int(i64::try_from(self.epochs.len()).unwrap_or(i64::MAX))),
            ("sample_ids", OrderedValue::List(ids)),
            ("shuffled", OrderedValue::Bool(false)),
        ]);
        let epochs = self.epochs.values().filter_map(|epochs| epochs.last()).max().copied().unwrap_or(1);
        OrderedValue::object([
            ("eval_id", id(0)),
            ("run_id", id(1)),
            ("created", TIME.into()),
            ("task", task.into()),
            ("task_id", id(2)),
            ("task_version", OrderedValue::Int(0)),
            ("task_attribs", empty()),
            ("task_args", empty()),
            ("dataset", dataset),
            ("model", only(&self.models, "trainyard/several").into()),
            ("model_generate_config", empty()),
            ("model_args", empty()),
            ("config", OrderedValue::object([("epochs", OrderedValue::Int(epochs))])),
            ("packages", OrderedValue::object([("trainyard", env!("CARGO_PKG_VERSION").into())])),
        ])
    }

    /// Returns the mean of each score over the samples that have it.
    fn results(&self) -> OrderedValue {
        let score = |(name, total): &(String, ScoreTotal)| {
            let metric = if total.is_verdict { "accuracy" } else { "mean" };
            let mean = OrderedValue::Float(total.sum / total.count as f64);
            let value = OrderedValue::object([("name", metric.into()), ("value", mean)]);
            OrderedValue::object([
                ("name", name.as_str().into()),
                ("scorer", name.as_str().into()),
                ("scored_samples", OrderedValue::Int(total.count)),
                ("unscored_samples", OrderedValue::Int(self.count - total.count)),
                ("params", OrderedValue::Object(Vec::new())),
                ("metrics", OrderedValue::object([(metric, value)])),
            ])
        };
        OrderedValue::object([
            ("total_samples", OrderedValue::Int(self.count)),
            ("completed_samples", OrderedValue::Int(self.count)),
            ("scores", OrderedValue::List(self.scores.iter().map(score).collect())),
        ])
    }
}

/// Returns the only name, or `several`.
fn only<'n>(names: &'n BTreeSet<String>, several: &'n str) -> &'n str {
    match (names.first(), names.len()) {
        (Some(name), 1) if !name.is_empty() => name,
        _ => several,
    }
}

fn text(object: &OrderedValue, key: &str) -> String {
    if let Some(OrderedValue::Text(text)) = object.get(key) { text.clone() } else { String::new() }
}

fn integer(object: &OrderedValue, key: &str) -> i64 {
    if let Some(OrderedValue::Int(value)) = object.get(key) { *value } else { 0 }
}

fn with_epoch(sample: OrderedValue, epoch: i64) -> OrderedValue {
    let replaced = |(key, value): (String, OrderedValue)| {
        let value = if key == "epoch" { OrderedValue::Int(epoch) } else { value };
        (key, value)
    };
    match sample {
        OrderedValue::Object(keys) => OrderedValue::Object(keys.into_iter().map(replaced).collect()),
        other => other,
    }
}
