//! Reads the document of an artifact that is a report.

use crate::find::ResolvedOutput;
use trainyard_api::report::{REPORT_FILE, StageReport};
use trainyard_core::{ArtifactKind, Error, Manifest, Output, Result};
use trainyard_store::Store;

/// Maximum bytes of a document.
const MAX_BYTES: u64 = 64 << 20;

/// Reads an artifact that is a report; `None` for other kinds. Errors: those of [`read`].
pub async fn show(store: &Store, found: &ResolvedOutput) -> Result<Option<StageReport>> {
    let output = found.output();
    if output.kind != ArtifactKind::Report {
        return Ok(None);
    }
    read(store, &found.manifest, output).await.map(Some)
}

/// Reads the report of a stage. Errors: data (no document, a damaged or too large one), those of the store.
pub async fn read(store: &Store, manifest: &Manifest, output: &Output) -> Result<StageReport> {
    let name = format!("the report of stage {} of run {}", manifest.provenance.stage, manifest.provenance.run);
    let file = output.files.iter().find(|file| file.path == REPORT_FILE);
    let file = file.ok_or_else(|| Error::data(format!("{name} has no file `{REPORT_FILE}`")))?;
    if file.size > MAX_BYTES {
        return Err(Error::data(format!("{name} has {} bytes, and pages show at most {MAX_BYTES}", file.size))
            .help("export the artifact, and open the file with another program"));
    }
    let bytes = store.read_object(&file.digest).await?;
    serde_json::from_slice(&bytes)
        .map_err(|e| Error::data(format!("{name} cannot be read: {e}")).help("run the stage again with `--rerun`"))
}
