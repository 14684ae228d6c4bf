//! Processes groups that are sampled and used one by one, in asynchronous and repeated runs.

use crate::stages::rl::collect::RolloutBatch;
use crate::stages::rl::state::{RlProgress, RlRun};
use trainyard_core::{Error, Result};
use trainyard_learn::{Draw, Rollout};

impl RlRun<'_> {
    /// Scores and filters one group and adds it to the batch. The ids of its rows contain the step that uses the group,
    /// and the group's number.
    pub(super) fn use_group(
        &self,
        mut members: Vec<Rollout>,
        progress: &mut RlProgress,
        all: &mut RolloutBatch,
    ) -> Result<()> {
        // The members are used in the order of their samples, regardless of the order in which they ended.
        members.sort_by_key(|m| m.trajectory.sample);
        let Some(first) = members.first() else { return Ok(()) };
        let (number, step) = (first.trajectory.group, progress.state.step);
        let draw = Draw { problems: vec![self.place_of(&first.trajectory.problem_id)?], ..Draw::default() };
        for one in &mut members {
            let t = &mut one.trajectory;
            t.id = format!("rl/{step}/{number}/{}/{}", t.problem_id, t.sample);
        }
        self.absorb(vec![members], &draw, progress, self.chance.child("group", &[u64::from(number)]), all)
    }
    /// Adds the values that parts need for a full batch, under the current weights.
    pub(super) fn complete_fresh(&self, progress: &mut RlProgress, all: &mut RolloutBatch) -> Result<()> {
        if progress.parts.needs().forced_scores {
            progress.refresh_sampler()?;
        }
        self.complete(progress, &mut all.batch)
    }
    /// Returns the index of a problem in the pool. Errors: data, if the problem is not in the pool.
    pub(super) fn place_of(&self, id: &str) -> Result<usize> {
        self.pool.problems.iter().position(|p| p.id == id).ok_or_else(|| {
            Error::data(format!("a rollout of the record is of problem `{id}`, which is not in the input `problems`"))
                .help("wire the problems of the recorded run")
        })
    }
}
