//! Samples rollouts on a separate thread while the policy is updated; rollouts keep their tokens when the weights
//! change.
//!
//! A slow tool or a long episode delays only its own group. The staleness of the data is bounded on both sides
//! (2505.24298): no more groups are open than can be used in time, and a group whose oldest token is older than
//! `max_staleness` updates is left out. The timing of the two threads affects only which weights sampled which token.
//! The rows record these versions, so [`super::recorded`] can repeat a run.

use super::RolloutSource;
use super::pending_groups::PendingGroups;
use super::worker::RolloutWorker;
use crate::rollouts::{EpisodeJob, EpisodeQueues, RolloutDriver, rescore};
use crate::stages::rl::asynchronous::AsyncOptions;
use crate::stages::rl::collect::{RolloutBatch, job};
use crate::stages::rl::state::{RlProgress, RlRun};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::Scope;
use trainyard_core::{Error, Result};
use trainyard_learn::Rollout;
use trainyard_lm::backend::{Parameters, Sampler};

/// Command to the sampling thread.
enum SamplerCommand {
    Start(Vec<EpisodeJob>),
    Weights(Parameters, u32),
}

/// Group whose members have all ended, or the thread's error.
type GroupResult = Result<Vec<Rollout>>;

/// The loop's side of the source: starts groups and takes them as they end.
pub(crate) struct AsyncSource<'o> {
    options: &'o AsyncOptions,
    pending: PendingGroups,
    commands: Sender<SamplerCommand>,
    ready: Receiver<GroupResult>,
}

impl<'o> AsyncSource<'o> {
    /// Creates a sampler with the current weights and starts the thread, which ends when the source is dropped.
    pub fn start<'scope>(
        run: &'scope RlRun<'_>,
        options: &'o AsyncOptions,
        progress: &RlProgress,
        scope: &'scope Scope<'scope, '_>,
    ) -> Result<Self> {
        let worker = RolloutWorker::of(run);
        let mut sampler = run.policy.sampler(run.threads)?;
        sampler.set_weights(&progress.trainer.weights()?, progress.version())?;
        let (commands, inbox) = channel();
        let (outbox, ready) = channel();
        scope.spawn(move || {
            if let Err(e) = sample(&worker, &mut *sampler, &inbox, &outbox) {
                // The receiver is dropped if the loop has failed first.
                outbox.send(Err(e)).ok();
            }
        });
        Ok(Self { options, pending: PendingGroups::default(), commands, ready })
    }

    /// Starts as many groups as the bound allows.
    fn fill(&mut self, run: &RlRun<'_>, progress: &mut RlProgress, used: usize) -> Result<()> {
        // Even the last of these groups is used in time, because every step takes `problems_per_step` of them.
        let max_open = run.config.problems_per_step * (1 + self.options.max_staleness as usize);
        while self.pending.started.len() + used < max_open {
            let number = progress.state.started_groups;
            let jobs = admit(run, progress, number)?;
            self.commands.send(SamplerCommand::Start(jobs)).map_err(|_| last_error(&self.ready))?;
            self.pending.started.insert(number, progress.state.step);
            progress.state.started_groups += 1;
        }
        Ok(())
    }
}

impl RolloutSource for AsyncSource<'_> {
    fn next(&mut self, run: &RlRun<'_>, progress: &mut RlProgress) -> Result<RolloutBatch> {
        let (step, groups_per_step) = (progress.state.step, run.config.problems_per_step);
        let max_staleness = self.options.max_staleness;
        let mut all = RolloutBatch::of_step(step);
        // This limit ends the loop if filters empty group after group.
        let mut draws_left = groups_per_step as u64 * run.config.resample.max_draws;
        while all.batch.groups.len() < groups_per_step && draws_left > 0 {
            let used = all.batch.groups.len();
            self.fill(run, progress, used)?;
            let Some(members) = self.pending.next(step, max_staleness, groups_per_step - used, groups_per_step) else {
                self.pending.ended.push_back(self.ready.recv().map_err(|_| last_error(&self.ready))??);
                continue;
            };
            draws_left -= 1;
            let oldest = members.iter().filter_map(oldest_version).min();
            let age = step.saturating_sub(oldest.map_or(step, u64::from));
            if age > max_staleness {
                all.stats.stale_groups += 1;
                continue;
            }
            run.use_group(members, progress, &mut all)?;
            all.stats.staleness += if all.batch.groups.len() > used { age } else { 0 };
        }
        run.complete_fresh(progress, &mut all)?;
        Ok(all)
    }
    fn learned(&mut self, progress: &RlProgress) -> Result<()> {
        // If the thread has ended, receiving the next group returns its error.
        self.commands.send(SamplerCommand::Weights(progress.trainer.weights()?, progress.version())).ok();
        Ok(())
    }
}

/// Draws the problem of group `number` and returns the jobs of the group.
fn admit(run: &RlRun<'_>, progress: &mut RlProgress, number: u32) -> Result<Vec<EpisodeJob>> {
    let chance = run.chance.child("admission", &[u64::from(number)]);
    let RlProgress { parts, state, .. } = progress;
    let draw = parts.curriculum.next(state.step, 1, &run.pool, &state.rates, &run.curriculum_chance());
    if draw.problems.is_empty() {
        return Err(Error::data("the curriculum has no problems left").help("use another curriculum, or add problems"));
    }
    let (size, place) = (run.config.rollout.group_size, run.place(state.step));
    let spawns = parts.strategy.start(&draw, &run.pool, size, place, &chance.child("start", &[]));
    let numbered = |j: EpisodeJob| EpisodeJob { group: number, draw: u64::from(number), ..j };
    Ok(spawns.into_iter().map(|s| numbered(job(&draw, s))).collect())
}

/// Returns the version of the weights that sampled the oldest token, or `None` without a sampled token.
fn oldest_version(one: &Rollout) -> Option<u32> {
    let t = &one.trajectory;
    t.weights_version.as_ref()?.iter().zip(&t.loss_mask).skip(one.given).filter(|(_, m)| **m).map(|(v, _)| *v).min()
}

/// Returns the error that ended the sampling thread.
fn last_error(ready: &Receiver<GroupResult>) -> Error {
    ready.iter().find_map(Result::err).unwrap_or_else(|| Error::bug("the sampling thread ended without an error"))
}

/// Runs the sampling thread until the loop disconnects, and sends each group when its last member has ended.
fn sample(
    worker: &RolloutWorker<'_>,
    sampler: &mut dyn Sampler,
    commands: &Receiver<SamplerCommand>,
    ready: &Sender<GroupResult>,
) -> Result<()> {
    let mut driver = worker.driver(sampler);
    let mut flow = EpisodeQueues::default();
    let mut open: BTreeMap<u32, (usize, Vec<Rollout>)> = BTreeMap::new();
    loop {
        if !handle_commands(commands, &mut driver, &mut flow, &mut open)? {
            return Ok(());
        }
        driver.pump(&mut flow, worker.problems)?;
        for one in flow.take_done() {
            let group = one.trajectory.group;
            let Some((size, members)) = open.get_mut(&group) else { continue };
            members.push(one);
            if members.len() == *size
                && let Some((_, mut members)) = open.remove(&group)
            {
                rescore::rescore_rollouts(driver.sampler, &worker.sampling, &mut members)?;
                if ready.send(Ok(members)).is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// Processes all received commands, and waits for one if there is no other work. Returns false if the loop has
/// disconnected.
fn handle_commands(
    commands: &Receiver<SamplerCommand>,
    driver: &mut RolloutDriver<'_, '_>,
    flow: &mut EpisodeQueues<'_>,
    open: &mut BTreeMap<u32, (usize, Vec<Rollout>)>,
) -> Result<bool> {
    loop {
        let command = if flow.unfinished() {
            commands.try_recv()
        } else {
            commands.recv().map_err(|_| TryRecvError::Disconnected)
        };
        match command {
            Ok(SamplerCommand::Start(jobs)) => {
                if let Some(first) = jobs.first() {
                    open.insert(first.group, (jobs.len(), Vec::new()));
                }
                jobs.into_iter().for_each(|job| flow.submit(job));
            }
            Ok(SamplerCommand::Weights(weights, version)) => driver.sampler.set_weights(&weights, version)?,
            Err(TryRecvError::Empty) => return Ok(true),
            Err(TryRecvError::Disconnected) => return Ok(false),
        }
    }
}
