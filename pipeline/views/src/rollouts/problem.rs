//! Reads the rollouts of one problem by update.

use super::reading::{blocking, open};
use crate::find::ResolvedOutput;
use std::collections::{BTreeMap, HashSet};
use trainyard_core::{Error, Result};
use trainyard_store::Store;
use trainyard_tables::{AnswerVerdict, RolloutFacts, TableSource, find_texts, read_facts_of};

/// Maximum rollouts that are read.
const ROLLOUTS: usize = 20_000;

/// Rollouts of one problem.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProblemHistory {
    /// Updates that used rollouts of the problem, in order; rollouts that no update used come first.
    pub steps: Vec<ProblemStep>,
    /// Number of rollouts.
    pub rollouts: usize,
    /// Whether the table may have more rollouts than were read.
    pub is_cut: bool,
}

/// Rollouts of one problem for one update.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProblemStep {
    /// Number of the update.
    pub step: Option<u32>,
    /// Rollouts, in the order of the table.
    pub rollouts: Vec<RolloutFacts>,
    /// Mean of the finite rewards; `None` without one.
    pub mean_reward: Option<f64>,
    /// Number of rollouts with a correct answer.
    pub right: usize,
}

/// Reads the rollouts of a problem. Errors: invalid (not trajectories, no rollouts of the problem), data (a damaged
/// table), those of the store.
pub async fn problem(
    store: &Store,
    artifact: &str,
    found: &ResolvedOutput,
    problem_id: &str,
) -> Result<ProblemHistory> {
    let table = open(store, artifact, found).await?;
    let (artifact, problem_id) = (artifact.to_string(), problem_id.to_string());
    blocking(move || {
        let history = read(&table, &problem_id)?;
        if history.rollouts == 0 {
            return Err(Error::invalid(format!("{artifact} has no rollouts of the problem `{problem_id}`"))
                .help("the list of rollouts shows the problems"));
        }
        Ok(history)
    })
    .await
}

fn read(table: &TableSource, problem_id: &str) -> Result<ProblemHistory> {
    let found = find_texts(table, &["problem_id"], &HashSet::from([problem_id.to_string()]), ROLLOUTS)?;
    let rows: Vec<u64> = found.into_iter().map(|found| found.row as u64).collect();
    let facts = read_facts_of(table, &rows, false)?;
    let mut steps = BTreeMap::<Option<u32>, Vec<RolloutFacts>>::new();
    for row in facts.rows {
        steps.entry(row.update).or_default().push(row);
    }
    let steps = steps.into_iter().map(|(step, rollouts)| of_step(step, rollouts)).collect();
    Ok(ProblemHistory { steps, rollouts: rows.len(), is_cut: rows.len() == ROLLOUTS })
}

fn of_step(step: Option<u32>, rollouts: Vec<RolloutFacts>) -> ProblemStep {
    let rewards: Vec<f64> = rollouts.iter().map(|row| row.reward).filter(|reward| reward.is_finite()).collect();
    let mean_reward = (!rewards.is_empty()).then(|| rewards.iter().sum::<f64>() / rewards.len() as f64);
    let right = rollouts.iter().filter(|row| row.verdict == AnswerVerdict::Right).count();
    ProblemStep { step, rollouts, mean_reward, right }
}
