//! Compares two artifacts: what their manifests say, and then their content.

use super::config::{ConfigChange, config_changes, map_changes};
use super::files::{FilesDiff, compare_files};
use super::inputs::{InputChange, input_changes};
use super::metrics::{ComparisonChange, MetricChange, comparison_changes, metric_changes};
use super::models::{TensorsDiff, compare_tensors};
use super::rows::{NamedTable, RowsDiff, compare_rows};
use crate::find::ResolvedOutput;
use crate::table;
use crate::tensors::has_tensors;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use tokio::runtime::Handle;
use trainyard_core::artifact::{ColumnStats, TableSummary};
use trainyard_core::{ArtifactKind, Error, FileEntry, Result};
use trainyard_store::Store;

/// Differences of two artifacts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ArtifactDiff {
    /// First artifact.
    pub a: ArtifactSide,
    /// Second artifact.
    pub b: ArtifactSide,
    /// Whether both names mean the same artifact. Nothing else is compared then.
    pub is_same: bool,
    /// Whether the content is equal. It is not compared further then.
    pub is_equal: bool,
    /// Differing keys of the stages' configs.
    pub config: Vec<ConfigChange>,
    /// Differing inputs of the stages.
    pub inputs: Vec<InputChange>,
    /// Metrics of the stages, equal ones too.
    pub metrics: Vec<MetricChange>,
    /// Differing comparisons of the stages.
    pub comparisons: Vec<ComparisonChange>,
    /// Differing metadata of the artifacts.
    pub metadata: Vec<ConfigChange>,
    /// Columns that only one table has; null if the artifacts are no tables or of different kinds.
    pub columns: Option<ColumnsDiff>,
    /// Rows of two tables; null as for `columns`, and if the content is equal.
    pub rows: Option<RowsDiff>,
    /// Tensors of two models; null if the artifacts are no models, or the content is equal.
    pub tensors: Option<TensorsDiff>,
    /// Files, except those with rows and tensors; null if the kinds differ or the content is equal.
    pub files: Option<FilesDiff>,
}

/// Compared artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArtifactSide {
    /// Name of the artifact, as given.
    pub artifact: String,
    /// Kind of the artifact.
    pub kind: ArtifactKind,
    /// Kind of the stage that made it.
    pub stage_kind: String,
    /// Version of that kind.
    pub kind_version: u32,
    /// Digest of the stage.
    pub stage_digest: String,
    /// Number of earlier publications of the stage.
    pub generation: u32,
    /// Digest of the content.
    pub digest: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Number of rows of a table.
    pub rows: Option<u64>,
}

/// Columns that differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ColumnsDiff {
    /// Columns that only A has.
    pub only_a: Vec<String>,
    /// Columns that only B has.
    pub only_b: Vec<String>,
    /// Columns of another type.
    pub retyped: Vec<RetypedColumn>,
}

/// Column of another type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RetypedColumn {
    /// Column name.
    pub column: String,
    /// Arrow type in A.
    pub a: String,
    /// Arrow type in B.
    pub b: String,
}

/// A found artifact and its name.
type Named<'a> = (&'a str, &'a ResolvedOutput);

/// Compares two artifacts. At most `shown` rows are shown of each kind of difference. Reads content in a thread for
/// blocking work.
///
/// Errors: lost (an object of either is missing), data (a damaged file), both with the name of the artifact; those of
/// the store.
pub async fn diff_artifacts(store: &Store, a: Named<'_>, b: Named<'_>, shown: usize) -> Result<ArtifactDiff> {
    let (made_a, made_b) = (&a.1.manifest, &b.1.manifest);
    let (output_a, output_b) = (a.1.output(), b.1.output());
    let place =
        |(_, found): Named<'_>| (found.manifest.stage_digest.clone(), found.manifest.generation, found.port.clone());
    let is_comparable = output_a.kind == output_b.kind;
    let mut diff = ArtifactDiff {
        a: side(a),
        b: side(b),
        is_same: place(a) == place(b),
        is_equal: output_a.digest == output_b.digest,
        config: config_changes(&made_a.config, &made_b.config),
        inputs: input_changes(store, made_a, made_b).await?,
        metrics: metric_changes(&made_a.metrics, &made_b.metrics, None),
        comparisons: comparison_changes(&made_a.comparisons, &made_b.comparisons),
        metadata: map_changes(&output_a.metadata, &output_b.metadata),
        columns: output_a.table.as_ref().zip(output_b.table.as_ref()).filter(|_| is_comparable).map(columns),
        rows: None,
        tensors: None,
        files: None,
    };
    if is_comparable && !diff.is_equal {
        compare_content(store, a, b, shown, &mut diff).await?;
    }
    Ok(diff)
}

fn side((name, found): Named<'_>) -> ArtifactSide {
    let (manifest, output) = (&found.manifest, found.output());
    ArtifactSide {
        artifact: name.to_string(),
        kind: output.kind,
        stage_kind: manifest.kind.clone(),
        kind_version: manifest.kind_version,
        stage_digest: manifest.stage_digest.to_string(),
        generation: manifest.generation,
        digest: output.digest.to_string(),
        bytes: output.size(),
        rows: output.table.as_ref().map(|table| table.rows),
    }
}

fn columns((a, b): (&TableSummary, &TableSummary)) -> ColumnsDiff {
    let by_name = |table: &'_ TableSummary| -> BTreeMap<String, String> {
        table.columns.iter().map(|column: &ColumnStats| (column.name.clone(), column.r#type.clone())).collect()
    };
    let (a, b) = (by_name(a), by_name(b));
    let missing = |from: &BTreeMap<String, String>, of: &BTreeMap<String, String>| {
        of.keys().filter(|name| !from.contains_key(*name)).cloned().collect()
    };
    let retyped = a.iter().filter_map(|(name, of_a)| {
        let of_b = b.get(name).filter(|of_b| *of_b != of_a)?;
        Some(RetypedColumn { column: name.clone(), a: of_a.clone(), b: of_b.clone() })
    });
    ColumnsDiff { only_a: missing(&b, &a), only_b: missing(&a, &b), retyped: retyped.collect() }
}

/// Compares the content of two artifacts of one kind.
async fn compare_content(
    store: &Store,
    a: Named<'_>,
    b: Named<'_>,
    shown: usize,
    diff: &mut ArtifactDiff,
) -> Result<()> {
    let (files_a, files_b) = (&a.1.output().files, &b.1.output().files);
    let (is_table, is_model) = (diff.columns.is_some(), diff.a.kind == ArtifactKind::Model);
    if is_table {
        diff.rows = Some(rows(store, a, b, shown).await?);
    }
    if is_model {
        diff.tensors = Some(tensors(store, (a.0, files_a), (b.0, files_b)).await?);
    }
    let is_left_out = |path: &str| (is_table && path == table::DATA) || (is_model && has_tensors(path));
    diff.files = Some(compare_files(files_a, files_b, is_left_out));
    Ok(())
}

async fn rows(store: &Store, a: Named<'_>, b: Named<'_>, shown: usize) -> Result<RowsDiff> {
    let (a, b) = (named_table(store, a).await?, named_table(store, b).await?);
    in_thread(move || compare_rows(&a, &b, shown)).await
}

async fn named_table(store: &Store, (name, found): Named<'_>) -> Result<NamedTable> {
    let source = table::open(store, name, found).await.map_err(|error| error.at(name))?;
    Ok(NamedTable { name: name.to_string(), source })
}

async fn tensors(store: &Store, a: (&str, &[FileEntry]), b: (&str, &[FileEntry])) -> Result<TensorsDiff> {
    for (name, files) in [a, b] {
        let with_tensors: Vec<FileEntry> = files.iter().filter(|file| has_tensors(&file.path)).cloned().collect();
        store.require_objects(&with_tensors).await.map_err(|error| error.at(name))?;
    }
    let owned = |(name, files): (&str, &[FileEntry])| (name.to_string(), files.to_vec());
    let (store, (name_a, files_a), (name_b, files_b)) = (store.clone(), owned(a), owned(b));
    let runtime = Handle::current();
    in_thread(move || compare_tensors(&store, (&name_a, &files_a), (&name_b, &files_b), &runtime)).await
}

async fn in_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|e| Error::bug(format!("a comparison ended early: {e}")))?
}

#[cfg(test)]
mod tests;
