//! Repeats an asynchronous run: the same groups enter the same updates, and every token is sampled under the same
//! weights.

use super::RolloutSource;
use super::replay_schedule::ReplaySchedule;
use super::scheduled_sampler::ScheduledSampler;
use super::worker::RolloutWorker;
use crate::rollouts::{EpisodeJob, EpisodeQueues, ToolWait, draw_key};
use crate::stages::rl::collect::RolloutBatch;
use crate::stages::rl::state::{RlProgress, RlRun};
use std::collections::{BTreeMap, VecDeque};
use trainyard_core::{Error, Result};
use trainyard_learn::Rollout;
use trainyard_lm::backend::Sampler;
use trainyard_tables::{EpisodeStatus, StopReason, Trajectory};

/// Record with the state of its repetition.
pub(crate) struct RecordedSource<'r> {
    record: &'r [Trajectory],
    worker: RolloutWorker<'r>,
    sampler: ScheduledSampler,
    flow: EpisodeQueues<'r>,
    /// Groups of every remaining update.
    updates: VecDeque<Vec<u32>>,
    ended: BTreeMap<u32, Vec<Rollout>>,
}

impl<'r> RecordedSource<'r> {
    /// Creates the source. Errors: data, if the record lacks a rollout of a step to repeat, or contains a problem that
    /// is not in the input.
    pub fn new(run: &'r RlRun<'_>, record: &'r [Trajectory], progress: &RlProgress) -> Result<Self> {
        let mut worker = RolloutWorker::of(run);
        // The record defines the order: a limit on running episodes could only block episodes that must end before the
        // weights change.
        worker.limits.running = usize::MAX;
        worker.limits.tool_wait = ToolWait::Trajectory;
        let mut schedule = ReplaySchedule::default();
        for row in record {
            let job = recorded_job(run, row)?;
            schedule.add(draw_key(&worker.chance, &run.problems[job.problem], &job), row);
        }
        let size = progress.parts.strategy.max_sequences(run.config.rollout.group_size);
        Ok(Self {
            record,
            sampler: ScheduledSampler::new(run.policy.sampler(run.threads)?, schedule),
            worker,
            flow: EpisodeQueues::default(),
            updates: updates(record, run.config.steps, size)?,
            ended: BTreeMap::new(),
        })
    }

    /// Samples all tokens that the record sampled under the current weights.
    fn sample(&mut self, run: &RlRun<'_>, version: u32) -> Result<()> {
        for row in
            self.record.iter().filter(|t| t.status == EpisodeStatus::Ok && ReplaySchedule::first_version(t) == version)
        {
            self.flow.submit(recorded_job(run, row)?);
        }
        while self.sampler.running() > 0 || self.flow.unsettled() {
            self.worker.driver(&mut self.sampler).pump(&mut self.flow, self.worker.problems)?;
        }
        for one in self.flow.take_done() {
            self.ended.entry(one.trajectory.group).or_default().push(one);
        }
        Ok(())
    }
}

impl RolloutSource for RecordedSource<'_> {
    fn next(&mut self, run: &RlRun<'_>, progress: &mut RlProgress) -> Result<RolloutBatch> {
        self.sample(run, progress.version())?;
        let step = progress.state.step;
        let mut all = RolloutBatch::of_step(step);
        for number in self.updates.pop_front().ok_or_else(|| missing(step))? {
            let mut members = self.ended.remove(&number).ok_or_else(|| missing(step))?;
            members.sort_by_key(|m| m.trajectory.sample);
            run.use_group(members, progress, &mut all)?;
        }
        run.complete_fresh(progress, &mut all)?;
        Ok(all)
    }
    fn learned(&mut self, progress: &RlProgress) -> Result<()> {
        self.sampler.set_weights(&progress.trainer.weights()?, progress.version())
    }
}

fn recorded_job(run: &RlRun<'_>, row: &Trajectory) -> Result<EpisodeJob> {
    Ok(EpisodeJob {
        problem: run.place_of(&row.problem_id)?,
        draw: u64::from(row.group),
        group: row.group,
        sample: row.sample,
        // A turn limit that was not reached had no effect.
        max_turns: (row.stop_reason == StopReason::Turns).then_some(row.turns),
        ..EpisodeJob::default()
    })
}

/// Returns the groups of every update, in the order in which they entered it. Groups that the infrastructure lost
/// entirely are left out, as in the recorded run.
fn updates(record: &[Trajectory], steps: u64, size: u32) -> Result<VecDeque<Vec<u32>>> {
    let mut updates: VecDeque<Vec<u32>> = VecDeque::new();
    let mut members: BTreeMap<u32, u32> = BTreeMap::new();
    for row in record {
        let update = row.update.ok_or_else(|| {
            Error::data(format!("row `{}` of input `record` has no `update`", row.id))
                .help("wire the output `trajectories` of an asynchronous run of this version")
        })? as usize;
        while updates.len() <= update {
            updates.push_back(Vec::new());
        }
        *members.entry(row.group).or_default() += 1;
        if row.status == EpisodeStatus::Ok && !updates[update].contains(&row.group) {
            updates[update].push(row.group);
        }
    }
    let cut = |groups: &Vec<u32>| groups.is_empty() || groups.iter().any(|g| members.get(g).is_none_or(|m| *m < size));
    let complete = updates.iter().take_while(|groups| !cut(groups)).count() as u64;
    if complete < steps { Err(missing(complete)) } else { Ok(updates) }
}

fn missing(step: u64) -> Error {
    Error::data(format!("the record lacks rollouts of update {step}"))
        .help("raise `keep_rollouts` of the run that writes the record, or repeat fewer steps")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_update_selects_groups_of_an_update() {
        let row = |group, update| Trajectory { group, update, ..Trajectory::default() };
        let record = [row(4, Some(0)), row(4, Some(0)), row(2, Some(1)), row(2, Some(1))];
        assert_eq!(updates(&record, 2, 2).unwrap(), [vec![4], vec![2]]);
        assert!(updates(&record, 3, 2).unwrap_err().message.contains("update 2"));
        assert!(updates(&record, 2, 3).unwrap_err().message.contains("update 0"), "groups of two of three");
        let old = Trajectory { id: "rl/0/4/p/1".into(), ..row(4, None) };
        assert!(updates(&[old], 1, 1).unwrap_err().message.contains("`rl/0/4/p/1`"));
    }
}
