//! The token sequences that are learned from, and those that are held out.

use std::collections::BTreeSet;
use trainyard_api::InputArtifact;
use trainyard_core::error::Context as _;
use trainyard_core::{Chance, Result};
use trainyard_lm::ModelFolder;
use trainyard_lm::examples::{Example, TokenizedTrajectory, expect_same_text, tokenize, unpack};
use trainyard_tables::{TableRowReader, TokenPack, Trajectory};

/// The examples of some rows, and what was left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SftExamples {
    /// Examples with at least one token in the loss, in the order of the rows.
    pub examples: Vec<Example>,
    /// Rows that gave them.
    pub rows: usize,
    /// Rows left out because they exceed the token limit.
    pub too_long: usize,
    /// Rows with no token in the loss.
    pub empty: usize,
    /// Turns left out of the loss because their tool call failed.
    pub masked_turns: usize,
}

/// Takes rows in order. `max_tokens` = tokens that a sequence may have.
pub fn prepare(rows: Vec<TokenizedTrajectory>, max_tokens: usize) -> SftExamples {
    let mut prepared = SftExamples::default();
    for row in rows {
        prepared.masked_turns += row.masked_turns;
        let longest = row.longest();
        let examples: Vec<Example> = row.contexts.into_iter().filter(|e| e.loss_tokens() > 0).collect();
        if longest > max_tokens {
            prepared.too_long += 1;
        } else if examples.is_empty() {
            prepared.empty += 1;
        } else {
            prepared.rows += 1;
            prepared.examples.extend(examples);
        }
    }
    prepared
}

/// Encodes the trajectories of some artifacts, on all threads. Errors: data, naming one that cannot be encoded.
pub fn encoded(
    artifacts: &[InputArtifact],
    model: &ModelFolder,
    mask_errored_turns: bool,
    source: &str,
) -> Result<Vec<TokenizedTrajectory>> {
    let mut all = Vec::new();
    for artifact in artifacts {
        for rows in TableRowReader::<Trajectory>::open(&artifact.parquet())? {
            let rows = rows?;
            expect_same_text(model, &rows, source)?;
            for row in tokenize(model, &rows, mask_errored_turns) {
                all.push(row?);
            }
        }
    }
    Ok(all)
}

/// Reads what `data/tokenize` made. Errors: data, if a pack is damaged.
pub fn packed(artifacts: &[InputArtifact]) -> Result<Vec<TokenizedTrajectory>> {
    let mut all = Vec::new();
    for artifact in artifacts {
        let path = artifact.parquet();
        for packs in TableRowReader::<TokenPack>::open(&path)? {
            for pack in packs? {
                all.extend(unpack(&pack).at(path.display())?);
            }
        }
    }
    Ok(all)
}

/// Splits rows by problem: (training, held out). About `share` of the problems are held out, at least one if there are
/// two.
pub fn hold_out<R>(rows: Vec<R>, problem: fn(&R) -> &String, share: f64, chance: &Chance) -> (Vec<R>, Vec<R>) {
    let mut problems: Vec<String> =
        rows.iter().map(|row| problem(row).clone()).collect::<BTreeSet<_>>().into_iter().collect();
    if share <= 0.0 || problems.len() < 2 {
        return (rows, Vec::new());
    }
    chance.at("hold out", &[]).shuffle(&mut problems);
    let count = ((problems.len() as f64 * share).round() as usize).clamp(1, problems.len() - 1);
    let held: BTreeSet<String> = problems.into_iter().take(count).collect();
    rows.into_iter().partition(|row| !held.contains(problem(row)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_held_out_whole() {
        let row = |i: usize| TokenizedTrajectory { problem_id: (i / 3).to_string(), ..TokenizedTrajectory::default() };
        let (train, held) = hold_out((0..30).map(row).collect(), |row| &row.problem_id, 0.2, &Chance::new(1));
        assert_eq!((train.len(), held.len()), (24, 6));
        let ids: BTreeSet<&str> = held.iter().map(|r| r.problem_id.as_str()).collect();
        assert!(train.iter().all(|r| !ids.contains(r.problem_id.as_str())));
        assert_eq!(hold_out(vec![row(0)], |row| &row.problem_id, 0.5, &Chance::new(1)).1.len(), 0);
    }
}
