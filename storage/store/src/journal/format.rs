//! Encodes and decodes the bytes of one batch: a header line, then one line for each event. Every line ends in a line
//! feed.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trainyard_core::{Digest, Epoch, Error, Result, RunId};

/// The first line of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchHeader {
    /// Version of the batch format: 1.
    pub format: u32,
    /// Run id.
    pub run: RunId,
    /// Number of the batch, from 0 without gaps.
    pub seq: u64,
    /// Number of the writer, from 1.
    pub epoch: Epoch,
    /// Name of the writer, unique to the process.
    pub writer: String,
    /// SHA-256 of the bytes of all batches before this one, concatenated.
    pub sha256_before: Digest,
}

/// One acknowledged put of events.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalBatch {
    /// Writer and number of the batch.
    pub header: BatchHeader,
    /// Events in order.
    pub events: Vec<Value>,
}

/// Encodes header and events.
pub(super) fn encode(header: &BatchHeader, events: &[impl Serialize]) -> Result<Bytes> {
    let mut text = Vec::with_capacity(256 + 128 * events.len());
    let no_form = |e| Error::bug(format!("run {}: a journal event has no JSON form: {e}", header.run));
    serde_json::to_writer(&mut text, header).map_err(no_form)?;
    text.push(b'\n');
    for event in events {
        serde_json::to_writer(&mut text, event).map_err(no_form)?;
        text.push(b'\n');
    }
    Ok(text.into())
}

/// Decodes the header alone, to name the owner of a batch.
pub(super) fn decode_header(path: &str, bytes: &[u8]) -> Result<BatchHeader> {
    let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let header: BatchHeader =
        serde_json::from_slice(line).map_err(|e| corrupt(path, format!("its first line is not a header: {e}")))?;
    if header.format != 1 {
        return Err(Error::invalid(format!("{path}: journal format {} is newer than this program", header.format))
            .help("use a newer trainyard"));
    }
    Ok(header)
}

/// Decodes a whole batch.
pub(super) fn decode(path: &str, bytes: &[u8]) -> Result<JournalBatch> {
    let header = decode_header(path, bytes)?;
    if bytes.last() != Some(&b'\n') {
        return Err(corrupt(path, "it is cut off: its last line has no end".into()));
    }
    let lines = bytes[..bytes.len() - 1].split(|b| *b == b'\n').enumerate().skip(1);
    let events = lines.map(|(i, line)| {
        serde_json::from_slice(line).map_err(|e| corrupt(path, format!("line {} is not JSON: {e}", i + 1)))
    });
    Ok(JournalBatch { events: events.collect::<Result<_>>()?, header })
}

/// Returns the error of a damaged journal.
pub(super) fn corrupt(path: &str, problem: String) -> Error {
    Error::data(format!("journal batch {path} is damaged: {problem}")).help(
        "published artifacts are not affected; start the workflow again with `trainyard run`: it is a new run, \
         whose finished stages are cache hits",
    )
}
