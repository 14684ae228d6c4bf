//! What stands in place of a manifest whose files garbage collection gave up.
//!
//! The name stays taken, so no generation is ever put twice and none is missing in front of another; the record stays,
//! so a number keeps its trail. The form is not that of a manifest: programs that do not know it take it for damage and
//! make the stage run again, as this one does.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use trainyard_core::units::format_time;
use trainyard_core::{Error, Manifest, Result};

/// Version of this form.
const FORMAT: u32 = 1;

/// A manifest whose files are given up, with the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Collected {
    /// Version of this form: 1.
    pub format: u32,
    /// When its files were given up, in Unix milliseconds by the clock of the command that did it.
    pub collected: i64,
    /// What it was, without the previews of its tables.
    pub manifest: Manifest,
}

impl Collected {
    /// Gives up the files of a manifest.
    pub fn new(mut manifest: Manifest, collected: i64) -> Self {
        for output in manifest.outputs.values_mut() {
            if let Some(table) = &mut output.table {
                table.preview.clear();
            }
        }
        Self { format: FORMAT, collected, manifest }
    }
    /// Reads the stored form; none if these bytes are something else.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(bytes).ok().filter(|found| found.format == FORMAT)
    }
    pub(crate) fn encode(&self, path: &str) -> Result<Bytes> {
        let mut text =
            serde_json::to_vec(self).map_err(|e| Error::bug(format!("{path}: this record has no JSON form: {e}")))?;
        text.push(b'\n');
        Ok(text.into())
    }
    /// The error of whoever asks for what was given up.
    pub(crate) fn error(&self, path: &str) -> Error {
        let time = format_time(self.collected);
        Error::data(format!("{path}: its files were given up by `artifacts gc` on {}", &time[..10]))
            .help("run the workflow again: the stage runs again and publishes the next generation")
    }
}
