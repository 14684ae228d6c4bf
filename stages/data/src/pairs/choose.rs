//! Selects the rows of one problem that become pairs.

use super::config::{PairCriterion, PairsConfig};
use super::pair::RowPair;
use super::{candidates, cut};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::chance::PhiloxRng;
use trainyard_core::{Error, Result};
use trainyard_tables::Trajectory;

/// Returns up to `per_problem` pairs of rows with these values, and uses every row as rarely as possible; ties are
/// drawn at random.
pub fn choose_by_value(values: &[f64], config: &PairsConfig, draws: &mut PhiloxRng) -> Vec<RowPair> {
    let differ = |&(better, worse): &(usize, usize)| values[better] - values[worse] >= config.min_gap;
    let all = (0..values.len()).flat_map(|better| (0..values.len()).map(move |worse| (better, worse)));
    let pairs = all.filter(differ).map(|(better, worse)| RowPair { better: (better, 0), worse: (worse, 0) });
    drawn(pairs.collect(), values.len(), config, draws)
}

/// Returns pairs as [`choose_by_value`] does, of steps of the rows.
///
/// Errors: data, if a row has no tokens or has several contexts.
pub fn choose_by_steps(rows: &[Trajectory], config: &PairsConfig, draws: &mut PhiloxRng) -> Result<Vec<RowPair>> {
    Ok(drawn(steps(rows, config)?, rows.len(), config, draws))
}

fn drawn(mut candidates: Vec<RowPair>, rows: usize, config: &PairsConfig, draws: &mut PhiloxRng) -> Vec<RowPair> {
    draws.shuffle(&mut candidates);
    spread(&candidates, rows, config.per_problem)
}

/// Returns all pairs of different steps after a common prefix whose values differ by at least `min_gap`. The value of a
/// step is a mean over the rows that begin with the step: of their rewards, or of their scores of the step. Errors:
/// data, if a row has no tokens or has several contexts.
fn steps(rows: &[Trajectory], config: &PairsConfig) -> Result<Vec<RowPair>> {
    if let Some(row) = rows.iter().find(|row| row.token_ids.is_empty() || !row.restarts.is_empty()) {
        let reason =
            if row.token_ids.is_empty() { "it has no tokens" } else { "its chat template rewrites earlier turns" };
        return Err(Error::data(format!("the steps of row `{}` cannot be compared: {reason}", row.id))
            .help("use `cut: end`, or rollouts of a model whose chat template keeps earlier turns"));
    }
    let mut values: BTreeMap<&[u32], Option<f64>> = BTreeMap::new();
    let mut seen: BTreeSet<(&[u32], &[u32])> = BTreeSet::new();
    let mut candidates = Vec::new();
    for (i, a) in rows.iter().enumerate() {
        for (k, b) in rows.iter().enumerate().skip(i + 1) {
            let Some((end_a, end_b)) = cut::first_difference(a, b) else { continue };
            let (step_a, step_b) = (&a.token_ids[..end_a], &b.token_ids[..end_b]);
            if !seen.insert((step_a, step_b)) || seen.contains(&(step_b, step_a)) {
                continue;
            }
            let mut of = |step| *values.entry(step).or_insert_with(|| step_value(rows, step, config));
            let (Some(value_a), Some(value_b)) = (of(step_a), of(step_b)) else { continue };
            let (a, b) = ((i, end_a), (k, end_b));
            if value_a - value_b >= config.min_gap {
                candidates.push(RowPair { better: a, worse: b });
            } else if value_b - value_a >= config.min_gap {
                candidates.push(RowPair { better: b, worse: a });
            }
        }
    }
    Ok(candidates)
}

/// Returns the mean over the rows that begin with `step`, or `None` if no such row has a value.
fn step_value(rows: &[Trajectory], step: &[u32], config: &PairsConfig) -> Option<f64> {
    let begin = rows.iter().filter(|row| row.token_ids.starts_with(step));
    let values: Vec<f64> = begin
        .filter_map(|row| match config.by {
            PairCriterion::Reward => candidates::value(row, config),
            PairCriterion::ProcessMin | PairCriterion::ProcessProduct | PairCriterion::ProcessLast => {
                cut::score_at(row, step.len())
            }
        })
        .collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns at most `limit` of the candidates. Repeatedly takes the candidate whose rows were used least, and the first
/// one among equals.
fn spread(candidates: &[RowPair], rows: usize, limit: usize) -> Vec<RowPair> {
    let mut uses = vec![0usize; rows];
    let mut remaining: Vec<RowPair> = candidates.to_vec();
    let mut taken = Vec::new();
    while taken.len() < limit {
        let cost = |pair: &RowPair| {
            let (a, b) = (uses[pair.better.0], uses[pair.worse.0]);
            (a.max(b), a + b)
        };
        let Some(place) = (0..remaining.len()).min_by_key(|&place| (cost(&remaining[place]), place)) else { break };
        let pair = remaining.remove(place);
        uses[pair.better.0] += 1;
        uses[pair.worse.0] += 1;
        taken.push(pair);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_used_evenly() {
        let all = |better: usize, worse: usize| RowPair { better: (better, 0), worse: (worse, 0) };
        let candidates: Vec<RowPair> = (0..2).flat_map(|b| (2..6).map(move |w| all(b, w))).collect();
        let taken = spread(&candidates, 6, 4);
        let uses = |row: usize| taken.iter().filter(|pair| pair.better.0 == row || pair.worse.0 == row).count();
        assert_eq!((0..6).map(uses).collect::<Vec<_>>(), [2, 2, 1, 1, 1, 1]);
        assert_eq!(spread(&candidates, 6, 99).len(), 8, "no candidate is taken twice");
    }
}
