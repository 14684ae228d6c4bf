//! Steps of training that have rollouts in an artifact.

use super::query::PART;
use super::reading::{blocking, open};
use crate::find::ResolvedOutput;
use crate::search::NumberRange;
use trainyard_core::Result;
use trainyard_store::Store;
use trainyard_tables::{UpdateRows, read_updates};

/// Steps with rollouts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RolloutSteps {
    /// Steps in ascending order.
    steps: Vec<UpdateRows>,
}

/// Step with rollouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutStep {
    /// Number of the step.
    pub step: u32,
    /// Number of rollouts.
    pub rollouts: u64,
    /// Part of the table with the first rollout, as [`super::RolloutListQuery::part`].
    pub part: u64,
}

/// Reads the steps of an artifact's rollouts, from one column of all rows. Errors: those of [`super::list`].
pub async fn steps(store: &Store, artifact: &str, found: &ResolvedOutput) -> Result<RolloutSteps> {
    let table = open(store, artifact, found).await?;
    blocking(move || Ok(RolloutSteps { steps: read_updates(&table)? })).await
}

impl RolloutSteps {
    /// Returns the number of steps.
    pub fn count(&self) -> usize {
        self.steps.len()
    }
    /// Returns the first and the last step.
    pub fn ends(&self) -> Option<(RolloutStep, RolloutStep)> {
        Some((step(self.steps.first()?), step(self.steps.last()?)))
    }
    /// Returns the step that is nearest to a range; of equally near ones, the earlier.
    pub fn nearest(&self, range: NumberRange) -> Option<RolloutStep> {
        let distance = |rows: &&UpdateRows| range.distance(f64::from(rows.update));
        self.steps.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).map(step)
    }
}

fn step(rows: &UpdateRows) -> RolloutStep {
    RolloutStep { step: rows.update, rollouts: rows.rows, part: rows.first_row / PART }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(updates: &[(u32, u64)]) -> RolloutSteps {
        let rows = |(update, first_row): &(u32, u64)| UpdateRows { update: *update, first_row: *first_row, rows: 8 };
        RolloutSteps { steps: updates.iter().map(rows).collect() }
    }

    #[test]
    fn the_nearest_step_is_that_with_the_least_distance() {
        let found = steps(&[(10, 0), (12, 8), (20, PART), (30, PART + 8)]);
        let nearest = |range: &str| found.nearest(range.parse().unwrap()).map(|step| (step.step, step.part));
        assert_eq!(nearest("3"), Some((10, 0)));
        assert_eq!(nearest("11"), Some((10, 0)), "the earlier of equally near steps");
        assert_eq!(nearest("13..18"), Some((12, 0)));
        assert_eq!(nearest("15..19"), Some((20, 1)));
        assert_eq!(nearest("31.."), Some((30, 1)));
        assert_eq!(nearest("20"), Some((20, 1)), "a step within the range is nearest");
        let (first, last) = found.ends().unwrap();
        assert_eq!((first.step, last.step, last.rollouts, found.count()), (10, 30, 8, 4));
    }

    #[test]
    fn rollouts_without_steps_have_no_nearest_one() {
        assert_eq!((steps(&[]).nearest("1".parse().unwrap()), steps(&[]).ends()), (None, None));
    }
}
