//! Groups the rows that may be paired by problem and prompt.

use super::config::{PairCriterion, PairsConfig};
use crate::row_mask::row_mask;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::{EpisodeStatus, Trajectory};

/// Rows that may be paired, and counts of the others.
#[derive(Debug, Default)]
pub struct PairCandidates {
    /// Rows by problem and prompt: two rows answer the same question only if both are equal. Rows are in the order of
    /// the input.
    pub problems: BTreeMap<(String, String), Vec<Trajectory>>,
    /// Number of rows with the text of an earlier one of the same problem.
    pub repeated: usize,
    /// Number of excluded rows: infrastructure failures, no value, rejected by `where`.
    pub left_out: usize,
}

/// Groups rows by their problem and prompt. Errors: invalid, for an invalid expression; data, if no row has the
/// component.
pub fn rows(all: Vec<Trajectory>, config: &PairsConfig, scratch: &Path) -> Result<PairCandidates> {
    let selected = match &config.r#where {
        None => vec![true; all.len()],
        Some(expression) => row_mask(&all.iter().collect::<Vec<_>>(), expression, scratch)?,
    };
    expect_component(&all, config)?;
    let mut rows = PairCandidates::default();
    let mut texts: BTreeSet<(String, String, String)> = BTreeSet::new();
    for (row, selected) in all.into_iter().zip(selected) {
        if !selected || row.status != EpisodeStatus::Ok || value(&row, config).is_none() {
            rows.left_out += 1;
            continue;
        }
        let (prompt, answer) = texts_of(&row);
        if !texts.insert((row.problem_id.clone(), prompt.clone(), answer)) {
            rows.repeated += 1;
            continue;
        }
        rows.problems.entry((row.problem_id.clone(), prompt)).or_default().push(row);
    }
    Ok(rows)
}

/// Returns the value of a row under the criterion of the options, or `None` if the row has no such value.
pub fn value(row: &Trajectory, config: &PairsConfig) -> Option<f64> {
    let scores = || row.step_scores.as_deref().filter(|scores| !scores.is_empty());
    let score = match (config.by, &config.component) {
        (PairCriterion::Reward, None) => Some(row.reward),
        (PairCriterion::Reward, Some(component)) => row.rewards.get(component).copied(),
        (PairCriterion::ProcessMin, _) => {
            scores().map(|all| all.iter().copied().fold(f64::INFINITY, |a, b| a.min(b.into())))
        }
        (PairCriterion::ProcessProduct, _) => scores().map(|all| all.iter().map(|s| f64::from(*s)).product()),
        (PairCriterion::ProcessLast, _) => scores().and_then(|all| all.last()).map(|score| f64::from(*score)),
    };
    score.filter(|score| score.is_finite())
}

fn expect_component(rows: &[Trajectory], config: &PairsConfig) -> Result<()> {
    let Some(component) = config.component.as_ref().filter(|_| !rows.is_empty()) else { return Ok(()) };
    if rows.iter().any(|row| row.rewards.contains_key(component)) {
        return Ok(());
    }
    let names: BTreeSet<&str> = rows.iter().flat_map(|row| row.rewards.keys().map(String::as_str)).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let known =
        if names.is_empty() { "the rows have no components".to_string() } else { format!("they have: {names}") };
    Err(Error::data(format!("no row of `trajectories` has the reward component `{component}`"))
        .help(format!("name another `component`, or leave it out for the reward; {known}")))
}

/// Returns the prompt and the answer of a row: as tokens if the row has tokens, else as messages.
fn texts_of(row: &Trajectory) -> (String, String) {
    if row.token_ids.is_empty() {
        let first = row.messages.iter().position(|m| m.role == "assistant").unwrap_or(row.messages.len());
        let (prompt, answer) = row.messages.split_at(first);
        return (format!("{prompt:?}"), format!("{answer:?}"));
    }
    let (prompt, answer) = row.token_ids.split_at((row.prompt_tokens as usize).min(row.token_ids.len()));
    (format!("{prompt:?}"), format!("{answer:?}"))
}
