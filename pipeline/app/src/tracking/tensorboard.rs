//! Implements the tracker `tensorboard`, which writes learning curves as event files.
//!
//! An event file is a sequence of records. Each record has a length, the checksum of the length, a message and the
//! checksum of the message. The messages are protocol buffers (tensorflow/core/util/event.proto), of which four fields
//! are used.

use super::protobuf::ProtobufMessage;
use super::tracker::{RunStart, Tracker, TrackerContext, TrackerEvent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use trainyard_api::PartOptions;
use trainyard_core::error::io_error;
use trainyard_core::event::Event;
use trainyard_core::{Error, Result, StageKey};

/// Options of the tracker `tensorboard`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TensorBoardOptions {
    /// Folder of the files; a relative path begins at the site file.
    pub folder: String,
}

impl Default for TensorBoardOptions {
    fn default() -> Self {
        Self { folder: "tensorboard".to_string() }
    }
}

impl PartOptions for TensorBoardOptions {
    const KIND: &'static str = "tensorboard";
    const SUMMARY: &'static str = "event files for TensorBoard";
    const DOC: &'static str = "Every stage of a run is a run of TensorBoard: the points of its learning curves are \
        scalars under the names of the metrics, and its final metrics are under `final/`. The files are in \
        `<folder>/<workflow>/<run>/<stage>/`; view them with `tensorboard --logdir FOLDER`.";
}

/// The tracker `tensorboard`.
pub struct TensorBoard {
    folder: PathBuf,
    run: Option<RunStart>,
    files: BTreeMap<StageKey, File>,
}

impl TensorBoard {
    /// Creates a tracker that writes below the folder of the options, relative to the site file.
    pub fn new(options: &TensorBoardOptions, context: &TrackerContext) -> Self {
        Self { folder: context.folder.join(&options.folder), run: None, files: BTreeMap::new() }
    }
    fn file(&mut self, stage: &StageKey) -> Result<&mut File> {
        if !self.files.contains_key(stage) {
            let run = self.run.as_ref().ok_or_else(|| Error::bug("a point arrived before its run was opened"))?;
            let folder = self.folder.join(name(&run.workflow)).join(name(&run.run.0)).join(name(&stage.0.to_string()));
            std::fs::create_dir_all(&folder).map_err(|e| io_error(&folder, &e))?;
            // TensorBoard reads the files of a folder in the order of their names, so these begin with the time.
            let path = folder.join(format!("events.out.tfevents.{:010}.{}", run.at / 1_000, run.at % 1_000));
            let opened = OpenOptions::new().create(true).append(true).open(&path);
            let mut file = opened.map_err(|e| io_error(&path, &e))?;
            file.write_all(&record(&version(run.at))).map_err(|e| io_error(&path, &e))?;
            self.files.insert(stage.clone(), file);
        }
        self.files.get_mut(stage).ok_or_else(|| Error::bug("an opened file is missing"))
    }
    fn write(&mut self, stage: &StageKey, bytes: &[u8]) -> Result<()> {
        let written = self.file(stage)?.write_all(bytes);
        written.map_err(|e| Error::retryable(format!("the event file of `{stage}` cannot be written")).caused_by(&e))
    }
}

impl Tracker for TensorBoard {
    fn take(&mut self, events: &[&TrackerEvent]) -> Result<()> {
        let mut points: BTreeMap<&StageKey, Vec<u8>> = BTreeMap::new();
        for event in events {
            match event {
                TrackerEvent::Opened(run) => self.run = Some(run.clone()),
                TrackerEvent::Point(point) => {
                    let event = scalar(point.at, point.step, &point.name, point.value);
                    points.entry(&point.stage).or_default().extend(record(&event));
                }
                TrackerEvent::Event(entry) => {
                    if let Event::Published { stage, metrics, .. } = &entry.event {
                        let events = metrics
                            .iter()
                            .map(|(metric, value)| record(&scalar(entry.at, 0, &format!("final/{metric}"), *value)));
                        points.entry(stage).or_default().extend(events.flatten());
                    }
                }
            }
        }
        points.iter().filter(|(_, bytes)| !bytes.is_empty()).try_for_each(|(stage, bytes)| self.write(stage, bytes))
    }
}

/// Returns a name as a path that is valid on every file system. Stages of embedded workflows become nested folders.
fn name(text: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.=[],/".contains(c) { c } else { '_' };
    text.trim_start_matches('/').chars().map(plain).collect::<String>().replace("..", "_")
}

/// Frames a message with its length and both checksums.
fn record(message: &ProtobufMessage) -> Vec<u8> {
    let message = message.as_bytes();
    let length = (message.len() as u64).to_le_bytes();
    let mut bytes = length.to_vec();
    bytes.extend_from_slice(&masked(crc32c(&length)).to_le_bytes());
    bytes.extend_from_slice(message);
    bytes.extend_from_slice(&masked(crc32c(message)).to_le_bytes());
    bytes
}

/// Returns the first message of a file, its version. Fields of an event: 1 wall time, 2 step, 3 version, 5 summary.
fn version(at: i64) -> ProtobufMessage {
    wall_time(at).text(3, "brain.Event:2")
}

/// Encodes a data point as a TensorBoard event. In `Summary.Value`, field 1 is the tag and field 2 the number.
fn scalar(at: i64, step: u64, tag: &str, value: f64) -> ProtobufMessage {
    let number = ProtobufMessage::default().text(1, tag).float(2, value as f32);
    wall_time(at).number(2, step).message(5, &ProtobufMessage::default().message(1, &number))
}

fn wall_time(at: i64) -> ProtobufMessage {
    ProtobufMessage::default().double(1, at as f64 / 1e3)
}

/// Computes CRC-32C (Castagnoli) bit by bit; a point has only about 50 bytes.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(crc & 1)))
    })
}

/// Masks a checksum, as the format requires for data that may contain checksums.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracking::testing::whole_run;

    #[test]
    fn checksum_matches_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa, "RFC 3720, B.4");
    }

    #[test]
    fn event_is_encoded_as_protocol_buffer() {
        let expected = [
            &[0x09][..],
            &2.5_f64.to_le_bytes(),
            &[0x10, 0x96, 0x01],
            &[0x2a, 0x0d, 0x0a, 0x0b, 0x0a, 0x04],
            b"loss",
            &[0x15],
            &0.5_f32.to_le_bytes(),
        ]
        .concat();
        let message = scalar(2_500, 150, "loss", 0.5);
        assert_eq!(message.as_bytes(), expected);
        let framed = record(&message);
        assert_eq!(framed.len(), expected.len() + 16);
        assert_eq!(framed[..8], (expected.len() as u64).to_le_bytes());
    }

    #[test]
    fn every_stage_has_a_folder_with_points_and_final_metrics() {
        let home = tempfile::tempdir().unwrap();
        let mut tracker = TensorBoard { folder: home.path().into(), run: None, files: BTreeMap::new() };
        let run = whole_run();
        tracker.take(&run.iter().collect::<Vec<_>>()).unwrap();
        let stage = |name: &str| home.path().join("agent/20261123-100000-abc").join(name);
        let text = |name: &str| {
            let file = std::fs::read_dir(stage(name)).unwrap().next().unwrap().unwrap().path();
            String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned()
        };
        let sft = text("sft");
        assert!(sft.contains("brain.Event:2") && sft.matches("loss").count() == 2 && sft.contains("final/accuracy"));
        assert!(text("rl[seed=1]").contains("reward_mean"));
    }

    #[test]
    fn names_stay_below_the_folder() {
        assert_eq!(name("rl[seed=1]"), "rl[seed=1]");
        assert_eq!(name("../../etc"), "_/_/etc");
        assert_eq!(name("a b\u{7}"), "a_b_");
    }
}
