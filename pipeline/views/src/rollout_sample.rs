//! Rollouts of an artifact, evenly spread over its rows.

use crate::find::ResolvedOutput;
use crate::table;
use serde::Deserialize;
use std::collections::VecDeque;
use trainyard_core::{Error, Result};
use trainyard_store::Store;
use trainyard_tables::json::{CellLimits, row_as_json};
use trainyard_tables::{BatchReader, ReadSlice, TableSource};

/// Columns that are read.
const COLUMNS: [&str; 5] = ["problem_id", "reward", "stop_reason", "turns", "update"];

/// Some rollouts of an artifact.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutSample {
    /// Number of rows of the artifact.
    pub rows_total: u64,
    /// Rollouts by rising row.
    pub rollouts: Vec<SampledRollout>,
}

/// Rollout, in short.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct SampledRollout {
    /// Position in the artifact.
    #[serde(skip)]
    pub row: u64,
    /// Id of the problem.
    pub problem_id: String,
    /// Number of the update that used the rollout.
    pub update: Option<u64>,
    /// Reward; null if it is not finite.
    pub reward: Option<f64>,
    /// Number of turns.
    pub turns: u64,
    /// Reason for the end.
    pub stop_reason: String,
}

/// Returns at most `limit` rollouts of an artifact, which errors call `artifact`.
///
/// Errors: invalid (not a table), data (a corrupt table), lost (the object is missing), those of the store.
pub async fn sample(store: &Store, artifact: &str, found: &ResolvedOutput, limit: usize) -> Result<RolloutSample> {
    let source = table::open(store, artifact, found).await?;
    let read = tokio::task::spawn_blocking(move || read(&source, limit));
    read.await.map_err(|e| Error::bug(format!("the reader of rollouts ended: {e}")))?
}

fn read(source: &TableSource, limit: usize) -> Result<RolloutSample> {
    let columns = COLUMNS.map(str::to_string);
    let reader = BatchReader::open_part(source, &ReadSlice { columns: Some(&columns), ..ReadSlice::default() })?;
    let rows_total = reader.rows();
    let mut wanted: VecDeque<u64> = spread(rows_total, limit).into();
    let mut rollouts = Vec::with_capacity(wanted.len());
    let mut first = 0;
    for batch in reader {
        let batch = batch?;
        let end = first + batch.num_rows() as u64;
        while let Some(row) = wanted.front().copied().filter(|row| *row < end) {
            wanted.pop_front();
            let at = usize::try_from(row - first).unwrap_or(usize::MAX);
            let cells = row_as_json(&batch, at, CellLimits::PREVIEW);
            let found: SampledRollout = serde_json::from_value(cells)
                .map_err(|e| Error::data(format!("row {row} of {} is no rollout: {e}", source.path().display())))?;
            rollouts.push(SampledRollout { row, ..found });
        }
        first = end;
        if wanted.is_empty() {
            break;
        }
    }
    Ok(RolloutSample { rows_total, rollouts })
}

/// Returns at most `count` of the numbers below `total`, each in the middle of an equal part.
fn spread(total: u64, count: usize) -> Vec<u64> {
    let total = u128::from(total);
    let count = (count as u128).min(total);
    let middles = (0..count).map(|part| (2 * part + 1) * total / (2 * count));
    middles.map(|row| u64::try_from(row).unwrap_or(u64::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::{Trajectory, write_trajectories};

    #[test]
    fn rows_are_in_the_middle_of_equal_parts() {
        assert_eq!(spread(3, 10), [0, 1, 2]);
        assert_eq!(spread(100, 4), [12, 37, 62, 87]);
        assert_eq!(spread(0, 4), [0_u64; 0]);
        assert_eq!(spread(5, 0), [0_u64; 0]);
        assert_eq!(spread(u64::MAX, 1), [u64::MAX / 2]);
    }

    #[test]
    fn sampled_rows_have_the_values_of_their_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let rollout = |n: u32| Trajectory {
            id: format!("r{n}"),
            problem_id: format!("p{n}"),
            update: (n > 10).then_some(n),
            reward: if n == 5 { f64::NAN } else { f64::from(n) },
            turns: n,
            ..Trajectory::default()
        };
        let rows: Vec<Trajectory> = (0..20).map(rollout).collect();
        write_trajectories(&path, &rows).unwrap();
        let found = read(&path.as_path().into(), 2).unwrap();
        assert_eq!(found.rows_total, 20);
        let short: Vec<_> = found.rollouts.iter().map(|r| (r.row, r.problem_id.as_str(), r.reward, r.update)).collect();
        assert_eq!(short, [(5, "p5", None, None), (15, "p15", Some(15.0), Some(15))]);
        assert_eq!(read(&path.as_path().into(), 500).unwrap().rollouts.len(), 20);
    }
}
