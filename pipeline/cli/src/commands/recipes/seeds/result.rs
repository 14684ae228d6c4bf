//! Reads and writes the result of one seed: every comparison of its run, with the differences of single problems.
//!
//! A file contains only computed values, without time and host, so a repeated seed gives the same bytes.

use super::super::effects::manifests;
use super::super::loaded_recipe::LoadedRecipe;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trainyard_core::artifact::Manifest;
use trainyard_core::error::io_error;
use trainyard_core::{Comparison, Digest, Error, Result};
use trainyard_runtime::RunContext;
use trainyard_spec::Plan;
use trainyard_train::stages::compare::pair_rows;

/// Version of the file format.
const FORMAT: u32 = 1;

/// Comparisons of one seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeedResult {
    /// Version of the file format: 1.
    pub format: u32,
    /// Name of the recipe.
    pub recipe: String,
    /// Seed of all stages.
    pub seed: u64,
    /// Digest of the plan that was run: file, params and checks.
    pub plan: Digest,
    /// Rows of all `compare` stages, in the order of the plan.
    pub rows: Vec<SeedRow>,
}

/// A row of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeedRow {
    /// Stage of the comparison.
    pub stage: String,
    /// The comparison itself.
    pub row: Comparison,
    /// Differences of single problems as (difference, number of problems), ascending; empty for metrics of reports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<(f64, u64)>,
}

/// Returns the path of a seed's result file.
pub fn path(folder: &Path, recipe: &str, seed: u64) -> PathBuf {
    folder.join(recipe).join(format!("{seed}.json"))
}

/// Reads all results of a recipe, sorted by seed. A missing folder has no results. Errors: data (a damaged file).
pub fn all(folder: &Path, recipe: &str) -> Result<Vec<SeedResult>> {
    let Ok(entries) = std::fs::read_dir(folder.join(recipe)) else { return Ok(Vec::new()) };
    let mut results = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| io_error(folder, &e))?.path();
        if path.extension().is_some_and(|e| e == "json") {
            results.extend(SeedResult::read(&path)?);
        }
    }
    results.sort_by_key(|result| result.seed);
    Ok(results)
}

impl SeedResult {
    /// Reads a result file, or returns `None` if it does not exist. Errors: data (a damaged file).
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(io_error(path, &e)),
        };
        let damaged = |why: String| {
            Error::data(format!("{} is not a result of a seed: {why}", path.display()))
                .help("remove the file to compute it again")
        };
        let result: Self = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
        if result.format == FORMAT { Ok(Some(result)) } else { Err(damaged(format!("format {}", result.format))) }
    }

    /// Writes the file atomically, so that an interrupted command leaves no partial file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|e| io_error(folder, &e))?;
        let text = serde_json::to_string(self).map_err(|e| Error::bug(format!("a result cannot be written: {e}")))?;
        // Each row is one line, so that a changed number changes one line.
        let text = text.replace("{\"stage\":", "\n{\"stage\":") + "\n";
        let half = path.with_extension("half");
        std::fs::write(&half, text).map_err(|e| io_error(&half, &e))?;
        std::fs::rename(&half, path).map_err(|e| io_error(path, &e))
    }

    /// Returns the row of a stage and metric.
    pub fn row(&self, stage: &str, metric: &str) -> Option<&SeedRow> {
        self.rows.iter().find(|r| r.stage == stage && r.row.metric == metric)
    }
}

/// Reads the comparisons of a finished run from the store. Errors: data (a comparison is missing), and those of the
/// store.
pub async fn of_store(recipe: &LoadedRecipe, seed: u64, plan: &Plan, context: &RunContext) -> Result<SeedResult> {
    let mut rows = Vec::new();
    for (stage, manifest) in manifests(plan, context, |node| node.kind == "compare").await? {
        let Some(manifest) = manifest else {
            return Err(Error::data(format!("stage `{stage}` of seed {seed} has no result")));
        };
        let differences = differences(&manifest, context).await?;
        rows.extend(manifest.comparisons.iter().map(|row| SeedRow {
            stage: stage.clone(),
            row: row.clone(),
            differences: differences.get(&row.metric).cloned().unwrap_or_default(),
        }));
    }
    Ok(SeedResult { format: FORMAT, recipe: recipe.name.clone(), seed, plan: plan.digest.clone(), rows })
}

/// Reads the differences of single problems for each metric, with their counts.
async fn differences(manifest: &Manifest, context: &RunContext) -> Result<BTreeMap<String, Vec<(f64, u64)>>> {
    let Some(output) = manifest.outputs.get("pairs") else { return Ok(BTreeMap::new()) };
    let folder = tempfile::tempdir().map_err(|e| Error::retryable(format!("cannot create a temporary folder: {e}")))?;
    context.store.fetch_output(output, folder.path()).await?;
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in pair_rows::read(&folder.path().join("data.parquet"))? {
        values.entry(row.metric).or_default().push(row.a - row.b);
    }
    Ok(values.into_iter().map(|(metric, values)| (metric, counted(values))).collect())
}

/// Counts equal values, and returns them in ascending order.
fn counted(mut values: Vec<f64>) -> Vec<(f64, u64)> {
    values.sort_by(f64::total_cmp);
    let mut counts: Vec<(f64, u64)> = Vec::new();
    for value in values {
        match counts.last_mut().filter(|(last, _)| *last == value) {
            Some((_, n)) => *n += 1,
            None => counts.push((value, 1)),
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_round_trips_and_damage_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let row = Comparison { difference: Some(0.25), n: Some(3), ..Comparison::of("avg") };
        let row = SeedRow { stage: "effect".into(), row, differences: counted(vec![0.5, -0.25, 0.5]) };
        assert_eq!(row.differences, [(-0.25, 1), (0.5, 2)]);
        let result =
            SeedResult { format: 1, recipe: "r".into(), seed: 41, plan: Digest::of(b"p"), rows: vec![row.clone()] };
        let path = path(folder.path(), "r", 41);
        assert_eq!(SeedResult::read(&path).unwrap(), None);
        result.write(&path).unwrap();
        assert_eq!(SeedResult::read(&path).unwrap(), Some(result.clone()));
        assert_eq!(all(folder.path(), "r").unwrap(), [result]);
        std::fs::write(&path, "{}").unwrap();
        assert!(SeedResult::read(&path).unwrap_err().message.contains("41.json is not a result of a seed"));
    }
}
