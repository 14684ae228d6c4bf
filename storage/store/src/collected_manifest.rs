//! Defines the tombstone by which garbage collection replaces an unreachable manifest (`docs/design/0014-garbage.md`).
//!
//! A manifest's name is never deleted, so no generation is put twice and generations have no gaps. The tombstone
//! contains the manifest, so the lineage of a metric remains known. Its format differs from that of a manifest: a
//! lookup, also one by an older program, treats the manifest as damaged and the stage runs again.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use trainyard_core::units::format_time;
use trainyard_core::{Error, Manifest, Result};

/// Format version.
const FORMAT: u32 = 1;

/// Tombstone of a manifest whose files may be removed, with the time of the replacement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CollectedManifest {
    /// Version of this format: 1.
    pub format: u32,
    /// Time at which the manifest was replaced, in Unix milliseconds by the clock of the collecting process.
    pub collected: i64,
    /// The manifest, without the previews of its tables.
    pub manifest: Manifest,
}

impl CollectedManifest {
    /// Creates the tombstone of a manifest; the previews of its tables are left out.
    pub fn new(mut manifest: Manifest, collected: i64) -> Self {
        for output in manifest.outputs.values_mut() {
            if let Some(table) = &mut output.table {
                table.preview.clear();
            }
        }
        Self { format: FORMAT, collected, manifest }
    }
    /// Parses the stored form; returns `None` for any other bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(bytes).ok().filter(|found| found.format == FORMAT)
    }
    pub(crate) fn encode(&self, path: &str) -> Result<Bytes> {
        let mut text =
            serde_json::to_vec(self).map_err(|e| Error::bug(format!("{path}: this record has no JSON form: {e}")))?;
        text.push(b'\n');
        Ok(text.into())
    }
    /// Returns the error with which a lookup reports the tombstone at `path`.
    pub(crate) fn error(&self, path: &str) -> Error {
        let time = format_time(self.collected);
        Error::data(format!("{path}: its files were given up by `artifacts gc` on {}", &time[..10]))
            .help("run the workflow again: the stage runs again and publishes the next generation")
    }
}
