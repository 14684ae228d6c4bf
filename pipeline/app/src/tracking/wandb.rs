//! Implements the tracker `wandb`, which writes offline runs of Weights & Biases. The command `wandb sync` uploads
//! them.
//!
//! The records of a run's file are protocol buffers (wandb/proto/wandb_internal.proto of the client), of which six
//! kinds are used.

mod log;

use self::log::WandbLog;
use super::protobuf::ProtobufMessage;
use super::tracker::{Point, RunStart, Tracker, TrackerContext, TrackerEvent};
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use trainyard_api::PartOptions;
use trainyard_core::event::{Event, RunOutcome};
use trainyard_core::{Error, Result, StageKey};

// Field numbers of the kinds of records.
const HISTORY: u32 = 2;
const SUMMARY: u32 = 3;
const METRIC: u32 = 12;
const RUN: u32 = 17;
const EXIT: u32 = 18;
const HEADER: u32 = 21;
/// Maximum characters of a run's id.
const ID: usize = 128;

/// Options of the tracker `wandb`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WandbOptions {
    /// Parent of the folder `wandb` with the runs; a relative path begins at the site file.
    pub folder: String,
    /// Project; the name of the workflow if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// User or team; the owner of the API key used for the upload if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
}

impl Default for WandbOptions {
    fn default() -> Self {
        Self { folder: ".".to_string(), project: None, entity: None }
    }
}

impl PartOptions for WandbOptions {
    const KIND: &'static str = "wandb";
    const SUMMARY: &'static str = "offline runs of Weights & Biases";
    const DOC: &'static str = "Each run is an offline run in `<folder>/wandb/offline-run-<time>-<run>`: upload it with \
        `wandb sync FOLDER`. Its config has the workflow's parameters, its metrics are `<stage>/<metric>` over \
        `<stage>/step`, and its summary has the final metrics of each stage as `<stage>/final/<metric>`. A resumed run \
        is another offline run of the same group, which has the name of the run.";
}

/// The tracker `wandb`.
pub struct Wandb {
    options: WandbOptions,
    folder: PathBuf,
    opened: Option<RunStart>,
    /// File of the run; `None` until a record is written.
    log: Option<WandbLog>,
    /// Number of history rows so far.
    rows: u64,
    /// Metrics whose axis was defined in the file.
    defined: BTreeSet<String>,
}

impl Wandb {
    /// Creates a tracker that writes below the folder of the options, relative to the site file.
    pub fn new(options: WandbOptions, context: &TrackerContext) -> Self {
        let folder = context.folder.join(&options.folder).join("wandb");
        Self { options, folder, opened: None, log: None, rows: 0, defined: BTreeSet::new() }
    }
    fn create(&self) -> Result<WandbLog> {
        let opened = self.opened.as_ref().ok_or_else(|| Error::bug("events arrived before their run was opened"))?;
        let started = jiff::Timestamp::from_millisecond(opened.at).unwrap_or_default().to_zoned(TimeZone::UTC);
        let id = id(opened);
        let folder = self.folder.join(format!("offline-run-{}-{id}", started.strftime("%Y%m%d_%H%M%S")));
        let mut log = WandbLog::create(&folder, &format!("run-{id}.wandb"))?;
        let version = concat!("trainyard ", env!("CARGO_PKG_VERSION"));
        // The second version is that of the oldest client that can read the file.
        let version = ProtobufMessage::default().text(1, version).text(2, "0.70.0");
        log.write(HEADER, &ProtobufMessage::default().message(1, &version))?;
        log.write(RUN, &self.run(opened, &id))?;
        Ok(log)
    }
    fn run(&self, opened: &RunStart, id: &str) -> ProtobufMessage {
        let config = opened.params.iter().fold(ProtobufMessage::default(), |config, (name, value)| {
            config.message(1, &ProtobufMessage::default().text(1, name).text(16, &value.to_string()))
        });
        let (seconds, nanos) = (opened.at.max(0) as u64 / 1_000, opened.at.max(0) as u64 % 1_000 * 1_000_000);
        let run = ProtobufMessage::default().text(1, id);
        let run = self.options.entity.iter().fold(run, |run, entity| run.text(2, entity));
        run.text(3, self.options.project.as_deref().unwrap_or(&opened.workflow))
            .message(4, &config)
            .text(6, &opened.run.0)
            .text(8, &opened.run.0)
            .text(10, &opened.workflow)
            .message(17, &ProtobufMessage::default().number(1, seconds).number(2, nanos))
    }
    fn write(&mut self, kind: u32, message: &ProtobufMessage) -> Result<()> {
        if self.log.is_none() {
            self.log = Some(self.create()?);
        }
        self.log.as_mut().map_or(Ok(()), |log| log.write(kind, message))
    }
    /// Returns the seconds since the run was opened.
    fn runtime(&self, at: i64) -> f64 {
        self.opened.as_ref().map_or(0.0, |opened| (at - opened.at).max(0) as f64 / 1e3)
    }
    /// Defines the steps of the stage as the axis of a metric, unless the file already has the definition.
    fn define(&mut self, stage: &StageKey, metric: &str) -> Result<()> {
        let name = format!("{stage}/{metric}");
        if !self.defined.insert(name.clone()) {
            return Ok(());
        }
        let options = ProtobufMessage::default().number(1, 1).number(3, 1);
        let axis = escaped(&format!("{stage}/step"));
        self.write(METRIC, &ProtobufMessage::default().text(1, &escaped(&name)).text(4, &axis).message(6, &options))
    }
    /// Writes points of one step as a row of the history, and their values as the summary.
    fn row(&mut self, points: &[&Point]) -> Result<()> {
        let Some(first) = points.first() else { return Ok(()) };
        for point in points {
            self.define(&first.stage, &point.name)?;
        }
        let mut row: BTreeMap<String, Value> = BTreeMap::new();
        row.insert(format!("{}/step", first.stage), first.step.into());
        row.insert("_timestamp".into(), (first.at as f64 / 1e3).into());
        row.insert("_runtime".into(), self.runtime(first.at).into());
        row.insert("_step".into(), self.rows.into());
        let values = points.iter().map(|point| (format!("{}/{}", point.stage, point.name), point.value));
        let row: Vec<(String, String)> =
            row.into_iter().map(|(key, value)| (key, value.to_string())).chain(values.map(written)).collect();
        let step = ProtobufMessage::default().number(1, self.rows);
        self.write(HISTORY, &items(&row).message(2, &step))?;
        self.rows += 1;
        self.write(SUMMARY, &items(&row))
    }
    fn event(&mut self, at: i64, event: &Event) -> Result<()> {
        match event {
            Event::Published { stage, metrics, .. } if !metrics.is_empty() => {
                let last = metrics.iter().map(|(name, value)| written((format!("{stage}/final/{name}"), *value)));
                let last: Vec<_> = last.collect();
                self.write(SUMMARY, &items(&last))
            }
            Event::RunFinished { outcome } => {
                let runtime = self.runtime(at) as u64;
                let exit = ProtobufMessage::default().number(1, exit_code(*outcome)).number(2, runtime);
                self.write(EXIT, &exit)
            }
            _ => Ok(()),
        }
    }
}

impl Tracker for Wandb {
    fn take(&mut self, events: &[&TrackerEvent]) -> Result<()> {
        let mut row: Vec<&Point> = Vec::new();
        for event in events {
            if let TrackerEvent::Point(point) = event {
                // The metrics of one step share a row.
                let together = row.last().is_some_and(|last| {
                    (&last.stage, last.attempt, last.step) == (&point.stage, point.attempt, point.step)
                });
                if !together {
                    self.row(&std::mem::take(&mut row))?;
                }
                row.push(point);
                continue;
            }
            self.row(&std::mem::take(&mut row))?;
            match event {
                TrackerEvent::Opened(opened) => self.opened = Some(opened.clone()),
                TrackerEvent::Event(record) => self.event(record.at, &record.event)?,
                TrackerEvent::Point(_) => {}
            }
        }
        self.row(&row)
    }
}

/// Returns the id of the offline run. A resumed run gets a separate id, since its file is separate.
fn id(opened: &RunStart) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    let run: String = opened.run.0.chars().map(plain).take(ID).collect();
    if opened.resumed { format!("{run}-{}", opened.at) } else { run }
}

/// Returns values as items of a history or a summary, with flat keys and JSON values.
fn items(values: &[(String, String)]) -> ProtobufMessage {
    values.iter().fold(ProtobufMessage::default(), |message, (key, value)| {
        message.message(1, &ProtobufMessage::default().text(2, key).text(16, value))
    })
}

/// Formats a value as the client does: as JSON with `NaN` and `Infinity`.
fn written((key, value): (String, f64)) -> (String, String) {
    let text = match value {
        value if value.is_nan() => "NaN".to_string(),
        value if value.is_infinite() => if value > 0.0 { "Infinity" } else { "-Infinity" }.to_string(),
        value => Value::from(value).to_string(),
    };
    (key, text)
}

/// Escapes dots, which separate levels in the names of metrics.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('.', "\\.")
}

fn exit_code(outcome: RunOutcome) -> u64 {
    match outcome {
        RunOutcome::Succeeded => 0,
        RunOutcome::Failed => 1,
        // Exit code that shells report for an interrupted program.
        RunOutcome::Cancelled => 130,
    }
}

#[cfg(test)]
mod tests {
    use super::log::fragments;
    use super::*;
    use crate::tracking::testing::{opened, point, whole_run};
    use std::path::Path;

    fn tracker(folder: &Path) -> Wandb {
        let options = WandbOptions::default();
        Wandb { options, folder: folder.into(), opened: None, log: None, rows: 0, defined: BTreeSet::new() }
    }

    #[test]
    fn run_is_one_file_with_rows_summary_and_end() {
        let home = tempfile::tempdir().unwrap();
        let run = whole_run();
        tracker(home.path()).take(&run.iter().collect::<Vec<_>>()).unwrap();
        let file = "offline-run-19700101_000001-20261123-100000-abc/run-20261123-100000-abc.wandb";
        let records: Vec<Vec<u8>> =
            fragments(&std::fs::read(home.path().join(file)).unwrap()).into_iter().map(|(_, data)| data).collect();
        // A record begins with its number; the key of the field for its kind follows.
        let kinds: Vec<u64> = records.iter().map(|record| key(&record[2..]) >> 3).collect();
        assert_eq!(kinds, [21, 17, 12, 2, 3, 2, 3, 3, 12, 2, 3, 18]);
        assert!(records.iter().enumerate().all(|(n, record)| record[..2] == [8, n as u8 + 1]));
        let text = |n: usize| String::from_utf8_lossy(&records[n]).into_owned();
        assert!(text(1).contains("agent") && text(1).contains("steps"));
        assert!(text(3).contains("sft/loss") && text(3).contains("2.5") && text(5).contains("NaN"));
        assert!(text(7).contains("sft/final/accuracy") && text(7).contains("0.75"));
        assert_eq!(records[11], [8, 12, 0x92, 1, 4, 8, 1, 16, 2], "exit code 1 after two seconds");
    }

    fn key(bytes: &[u8]) -> u64 {
        let end = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap();
        bytes[..=end].iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
    }

    #[test]
    fn steps_are_rows_and_a_resumed_run_is_a_new_file() {
        let home = tempfile::tempdir().unwrap();
        let mut tracker = tracker(home.path());
        let seen = [
            TrackerEvent::Opened(RunStart { resumed: true, ..opened("r") }),
            TrackerEvent::Point(point("rl", "loss", 4, 1.0)),
            TrackerEvent::Point(point("rl", "kl.term", 4, 0.5)),
            TrackerEvent::Point(point("rl", "loss", 5, 0.5)),
        ];
        tracker.take(&seen.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(tracker.rows, 2);
        let file = std::fs::read(home.path().join("offline-run-19700101_000001-r-1000/run-r-1000.wandb")).unwrap();
        assert!(String::from_utf8_lossy(&file).contains("rl/kl\\.term"));
    }
}
