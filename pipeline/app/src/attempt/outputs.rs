//! Turns filled output folders into stored outputs: every file is hashed and put as an object, every table summarized.
//!
//! Required outputs must be filled, tables need a `data.parquet`, and weights and metrics must be finite numbers.

use std::path::{Path, PathBuf};
use trainyard_api::StageContext;
use trainyard_core::artifact::{FileEntry, TableSummary, require_finite};
use trainyard_core::attempt::{AttemptResult, AttemptSpec};
use trainyard_core::error::{Context as _, io_error};
use trainyard_core::{ArtifactKind, Error, Output, Result};
use trainyard_store::Store;

/// Stores everything that the stage left and builds its result.
pub async fn store(store: &Store, spec: &AttemptSpec, mut context: StageContext) -> Result<AttemptResult> {
    require_finite(&context.metrics, &context.comparisons)?;
    let mut outputs = std::collections::BTreeMap::new();
    for (port, declared) in &spec.outputs {
        let folder = context.output(port)?.to_path_buf();
        let files = files_below(&folder)?;
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
        outputs.insert(
            port.clone(),
            Output::new(declared.kind, put_files(store, &folder, files).await?, table, metadata)?,
        );
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

async fn put_files(store: &Store, folder: &Path, files: Vec<PathBuf>) -> Result<Vec<FileEntry>> {
    let mut entries = Vec::with_capacity(files.len());
    for file in files {
        let (digest, size) = store.put_object_file(&file).await?;
        let path = file.strip_prefix(folder).map_err(|e| Error::bug(format!("{}: {e}", file.display())))?;
        let path = path.to_string_lossy().replace('\\', "/");
        entries.push(FileEntry { path, digest, size });
    }
    Ok(entries)
}

/// All regular files below a folder, sorted by path.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).map_err(|e| io_error(&next, &e))? {
            let path = entry.map_err(|e| io_error(&next, &e))?.path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}
