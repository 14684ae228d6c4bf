//! Stores output folders: it puts every file as an object under its digest, and summarizes every table.
//!
//! Required outputs must contain files, tables must have a `data.parquet`, and weights and metrics must be finite
//! numbers.

use super::files::{OutputFile, files_below};
use std::path::Path;
use trainyard_api::StageContext;
use trainyard_core::artifact::{FileEntry, TableSummary, require_finite};
use trainyard_core::attempt::{AttemptResult, AttemptSpec};
use trainyard_core::error::Context as _;
use trainyard_core::{ArtifactKind, Error, Output, Result};
use trainyard_store::Store;

/// Stores all outputs of the stage and returns its result. The result itself is not stored.
pub async fn store(store: &Store, spec: &AttemptSpec, mut context: StageContext) -> Result<AttemptResult> {
    require_finite(&context.metrics, &context.comparisons)?;
    let mut outputs = std::collections::BTreeMap::new();
    for (port, declared) in &spec.outputs {
        let folder = context.output(port)?.to_path_buf();
        let files = files_below(&folder).at(format!("output `{port}` of stage `{}`", spec.stage))?;
        if files.is_empty() {
            if declared.optional {
                continue;
            }
            return Err(Error::bug(format!("output `{port}` of stage `{}` stayed empty", spec.stage)));
        }
        let table = summarize(declared.kind, &folder).at(format!("output `{port}`"))?;
        if declared.kind == ArtifactKind::Model {
            trainyard_lm::checkpoint::refuse_non_finite(&folder).at(format!("output `{port}`"))?;
        }
        let metadata = context.metadata.remove(port).unwrap_or_default();
        outputs.insert(port.clone(), Output::new(declared.kind, put_files(store, files).await?, table, metadata)?);
    }
    Ok(AttemptResult {
        format: 1,
        run: spec.run.clone(),
        stage: spec.stage.clone(),
        attempt: spec.attempt,
        stage_digest: spec.stage_digest.clone(),
        outputs,
        metrics: context.metrics,
        comparisons: context.comparisons,
        measured: context.measured,
    })
}

fn summarize(kind: ArtifactKind, folder: &Path) -> Result<Option<TableSummary>> {
    match kind {
        ArtifactKind::Problems | ArtifactKind::Trajectories | ArtifactKind::Table => {
            trainyard_tables::summarize(&folder.join("data.parquet")).map(Some)
        }
        ArtifactKind::Model | ArtifactKind::Report | ArtifactKind::Files => Ok(None),
    }
}

async fn put_files(store: &Store, files: Vec<OutputFile>) -> Result<Vec<FileEntry>> {
    let mut entries = Vec::with_capacity(files.len());
    for OutputFile { path, place } in files {
        let (digest, size) = store.put_object_file(&place).await?;
        entries.push(FileEntry { path, digest, size });
    }
    Ok(entries)
}
