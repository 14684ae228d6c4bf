//! Asynchronous rollouts: episodes are sampled while the policy is updated, and keep their tokens when its weights change.
//!
//! Why so: a slow tool or a long episode holds up its own group only. How far the data may lag is bounded on both sides (2505.24298): no more
//! groups are open than the bound lets be used in time, and a group whose oldest token is older than `max_staleness` updates is left out.
//! Which weights sampled which token depends on when two threads meet, and nothing else does; the records hold it, with the update that
//! used each group, so the input `record` repeats a run to the same bits. Refuses: strategies that fork, a loss without importance
//! correction, records that miss an update.

use super::collect::{Collected, job};
use super::run::{Progress, Run};
use crate::rollouts::{Driver, Finished, Flow, Job, Limits, Schedule, rescore};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use trainyard_api::{CancelToken, StageContext};
use trainyard_core::{Chance, Error, Result};
use trainyard_envs::Environment;
use trainyard_learn::{Batch, Draw};
use trainyard_lm::{Generator, ModelFolder, Weights};
use trainyard_tables::{Problem, Sampling, Status, StopReason, Trajectory};

/// Options of asynchronous rollouts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Asynchronous {
    /// Updates that may lie between the weights of a rollout's oldest token and the update that uses it.
    #[schemars(range(min = 0, max = 1000))]
    pub max_staleness: u64,
}

impl Default for Asynchronous {
    fn default() -> Self {
        Self { max_staleness: 4 }
    }
}

/// To the thread that samples.
enum Command {
    Start(Vec<Job>),
    Weights(Weights, u32),
}

/// What the thread that samples works with.
struct Sampler<'a> {
    model: &'a ModelFolder,
    environment: &'a dyn Environment,
    problems: &'a [Problem],
    limits: Limits,
    sampling: Sampling,
    chance: Chance,
    cancel: &'a CancelToken,
}

impl<'a> Sampler<'a> {
    fn driver(&self, generator: &'a mut Generator) -> Driver<'a> {
        Driver {
            generator,
            model: self.model,
            environment: self.environment,
            limits: self.limits,
            sampling: self.sampling,
            chance: self.chance,
            name: "rl".into(),
            cancel: self.cancel,
        }
    }

    /// Samples until the other side hangs up. Sends groups when their last member has ended.
    fn sample(
        &self,
        generator: &'a mut Generator,
        commands: &Receiver<Command>,
        ready: &Sender<Result<Vec<Finished>>>,
    ) {
        let mut driver = self.driver(generator);
        if let Err(e) = self.pump(&mut driver, commands, ready) {
            // Nobody listens any more when the other side has failed first.
            ready.send(Err(e)).ok();
        }
    }
    fn pump(
        &self,
        driver: &mut Driver<'a>,
        commands: &Receiver<Command>,
        ready: &Sender<Result<Vec<Finished>>>,
    ) -> Result<()> {
        let mut flow = Flow::default();
        let mut open: BTreeMap<u32, (usize, Vec<Finished>)> = BTreeMap::new();
        loop {
            loop {
                let command = if flow.unfinished() {
                    commands.try_recv()
                } else {
                    commands.recv().map_err(|_| TryRecvError::Disconnected)
                };
                match command {
                    Ok(Command::Start(jobs)) => {
                        if let Some(first) = jobs.first() {
                            open.insert(first.group, (jobs.len(), Vec::new()));
                        }
                        jobs.into_iter().for_each(|job| flow.submit(job));
                    }
                    Ok(Command::Weights(weights, version)) => driver.set_weights(&mut flow, &weights, version)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            driver.pump(&mut flow, self.problems)?;
            for one in flow.take_done() {
                let group = one.trajectory.group;
                let Some((size, members)) = open.get_mut(&group) else { continue };
                members.push(one);
                if members.len() == *size
                    && let Some((_, mut members)) = open.remove(&group)
                {
                    rescore::as_recorded(driver.generator, &self.sampling, &mut members)?;
                    if ready.send(Ok(members)).is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Groups that were started and are not used yet.
#[derive(Default)]
struct Intake {
    /// Number → the step that started it.
    open: BTreeMap<u32, u64>,
    /// Those of them that have ended, in order of arrival.
    ended: VecDeque<Vec<Finished>>,
}

impl Intake {
    /// The next group to use, of those that have ended. Where the open groups that must be used by some step are as many as the places
    /// until then (`places` in this step, `wanted` in each later one), only these: slow groups are waited for, not left out.
    fn next(&mut self, step: u64, max_staleness: u64, places: usize, wanted: usize) -> Option<Vec<Finished>> {
        let due = |started: u64, by: u64| started + max_staleness <= by;
        let tight = |ahead: &u64| {
            let due_by_then = self.open.values().filter(|started| due(**started, step + ahead)).count();
            due_by_then >= places + wanted * *ahead as usize
        };
        let by = (0..=max_staleness).find(tight).map(|ahead| step + ahead);
        let group_of = |members: &[Finished]| members.first().map_or(0, |m| m.trajectory.group);
        let may = |number: u32| by.is_none_or(|by| self.open.get(&number).is_some_and(|started| due(*started, by)));
        let at = self.ended.iter().position(|members| may(group_of(members)))?;
        let members = self.ended.remove(at)?;
        self.open.remove(&group_of(&members));
        Some(members)
    }
}

impl Run<'_> {
    /// All steps that are left, with rollouts from a thread of their own.
    pub(super) fn run_asynchronous(
        &mut self,
        options: &Asynchronous,
        context: &StageContext,
        progress: &mut Progress,
    ) -> Result<()> {
        let (environment, problems) = (self.environment.clone(), self.problems.clone());
        let (folder, cancel) = (&self.policy.folder, self.cancel.clone());
        let (limits, sampling) = (self.limits(), self.config.sampling().distribution());
        let chance = self.chance.child("asynchronous", &[]);
        let mut generator = Generator::new(&folder.config, &progress.trainer.decoder.weights()?, self.threads)?;
        generator.set_version(u32::try_from(progress.state.step).unwrap_or(u32::MAX));
        std::thread::scope(|scope| {
            let (commands, inbox) = channel();
            let (outbox, ready) = channel();
            scope.spawn(move || {
                let sampler = Sampler {
                    model: folder,
                    environment: &*environment,
                    problems: &problems,
                    limits,
                    sampling,
                    chance,
                    cancel: &cancel,
                };
                sampler.sample(&mut generator, &inbox, &outbox);
            });
            let mut intake = Intake::default();
            while progress.state.step < self.config.steps {
                context.stop_if_cancelled()?;
                let mut collected = self.take(options, progress, &mut intake, &commands, &ready)?;
                self.fresh_generator(progress)?;
                self.complete(&progress.parts, &mut progress.generator, &mut collected.batch)?;
                self.learn(context, progress, collected)?;
                let weights = progress.trainer.decoder.weights()?;
                commands.send(Command::Weights(weights, u32::try_from(progress.state.step).unwrap_or(u32::MAX))).ok();
                self.after_step(context, progress)?;
            }
            Ok(())
        })
    }

    /// Gold answers are scored under the present weights.
    fn fresh_generator(&self, progress: &mut Progress) -> Result<()> {
        if !progress.parts.needs().forced_scores {
            return Ok(());
        }
        let version = u32::try_from(progress.state.step).unwrap_or(u32::MAX);
        progress.generator.update(&progress.trainer.decoder.weights()?, version)
    }

    /// Starts as many groups as the bound allows, and takes groups as they end until the batch is full.
    fn take(
        &mut self,
        options: &Asynchronous,
        progress: &mut Progress,
        intake: &mut Intake,
        commands: &Sender<Command>,
        ready: &Receiver<Result<Vec<Finished>>>,
    ) -> Result<Collected> {
        let step = progress.state.step;
        let wanted = self.config.problems_per_step;
        let mut all = Collected { batch: Batch { step, groups: Vec::new() }, ..Collected::default() };
        // Behind so many others a group is used in time: every step takes `wanted` of them.
        let most = wanted * (1 + options.max_staleness as usize);
        // A pool that filters empty again and again must not be sampled for ever.
        let mut patience = wanted as u64 * self.config.resample.max_draws;
        while all.batch.groups.len() < wanted && patience > 0 {
            while intake.open.len() + all.batch.groups.len() < most {
                let number = progress.state.started_groups;
                let jobs = self.admit(progress, step, number)?;
                commands.send(Command::Start(jobs)).map_err(|_| last_word(ready))?;
                intake.open.insert(number, step);
                progress.state.started_groups += 1;
            }
            let Some(members) = intake.next(step, options.max_staleness, wanted - all.batch.groups.len(), wanted)
            else {
                intake.ended.push_back(ready.recv().map_err(|_| last_word(ready))??);
                continue;
            };
            patience -= 1;
            let oldest = members.iter().filter_map(oldest_version).min();
            let age = step.saturating_sub(oldest.map_or(step, u64::from));
            if age > options.max_staleness {
                all.tally.stale_groups += 1;
                continue;
            }
            let before = all.batch.groups.len();
            self.use_group(members, progress, &mut all)?;
            all.tally.staleness += if all.batch.groups.len() > before { age } else { 0 };
        }
        Ok(all)
    }

    /// The jobs of the next group.
    fn admit(&self, progress: &mut Progress, step: u64, number: u32) -> Result<Vec<Job>> {
        let chance = self.chance.child("admission", &[u64::from(number)]);
        let Progress { parts, state, .. } = progress;
        let draw = parts.curriculum.next(step, 1, &self.pool, &state.rates, &self.curriculum_chance());
        if draw.problems.is_empty() {
            return Err(Error::data("the curriculum has no problem to give")
                .help("use another curriculum, or give more problems"));
        }
        let size = self.config.rollout.group_size;
        let spawns = parts.strategy.start(&draw, &self.pool, size, self.progress(step), &chance.child("start", &[]));
        let numbered = |j: Job| Job { group: number, draw: u64::from(number), ..j };
        Ok(spawns.into_iter().map(|s| numbered(job(&draw, s))).collect())
    }

    /// Scores and filters one group; its records carry the update that used it.
    fn use_group(&mut self, mut members: Vec<Finished>, progress: &mut Progress, all: &mut Collected) -> Result<()> {
        let Some(first) = members.first() else { return Ok(()) };
        let (number, step) = (first.trajectory.group, progress.state.step);
        let problem = self.place_of(&first.trajectory.problem_id)?;
        members.iter_mut().for_each(|m| m.trajectory.group = 0);
        let draw = Draw { problems: vec![problem], ..Draw::default() };
        let chance = self.chance.child("group", &[u64::from(number)]);
        let from = all.records.len();
        let Progress { parts, state, .. } = progress;
        self.absorb(members, &draw, parts, &mut state.rates, self.progress(step), chance, all)?;
        for record in &mut all.records[from..] {
            record.group = number;
            record.id = format!("rl/{step}/{number}/{}/{}", record.problem_id, record.sample);
        }
        Ok(())
    }
    fn place_of(&self, id: &str) -> Result<usize> {
        self.pool.problems.iter().position(|p| p.id == id).ok_or_else(|| {
            Error::data(format!("a rollout is of problem `{id}`, which the input `problems` does not hold"))
                .help("repeat a run on the problems that it was made on")
        })
    }

    fn recorded_job(&self, row: &Trajectory) -> Result<Job> {
        let problem = self.place_of(&row.problem_id)?;
        // A turn limit that was not reached made no difference.
        let max_turns = (row.stop_reason == StopReason::Turns).then_some(row.turns);
        Ok(Job {
            problem,
            draw: u64::from(row.group),
            group: row.group,
            sample: row.sample,
            max_turns,
            ..Job::default()
        })
    }

    /// Repeats a recorded asynchronous run: the same groups enter the same updates, and every token is sampled under the same weights.
    pub(super) fn run_recorded(
        &mut self,
        record: &[Trajectory],
        context: &StageContext,
        progress: &mut Progress,
    ) -> Result<()> {
        let (environment, problems) = (self.environment.clone(), self.problems.clone());
        let cancel = self.cancel.clone();
        let sampler = Sampler {
            model: &self.policy.folder,
            environment: &*environment,
            problems: &problems,
            limits: self.limits(),
            sampling: self.config.sampling().distribution(),
            chance: self.chance.child("asynchronous", &[]),
            cancel: &cancel,
        };
        let mut generator = Generator::new(&sampler.model.config, &progress.trainer.decoder.weights()?, self.threads)?;
        let mut driver = sampler.driver(&mut generator);
        let mut flow = Flow::scheduled(Schedule::new(record));
        let size = progress.parts.strategy.most(self.config.rollout.group_size);
        let mut updates = updates(record, self.config.steps, size)?;
        let mut ended: BTreeMap<u32, Vec<Finished>> = BTreeMap::new();
        while progress.state.step < self.config.steps {
            let version = u32::try_from(progress.state.step).unwrap_or(u32::MAX);
            for row in record.iter().filter(|t| t.status == Status::Ok && Schedule::first_version(t) == version) {
                flow.submit(self.recorded_job(row)?);
            }
            while flow.can_move() {
                driver.pump(&mut flow, sampler.problems)?;
            }
            for one in flow.take_done() {
                ended.entry(one.trajectory.group).or_default().push(one);
            }
            let step = progress.state.step;
            let groups = updates.pop_front().ok_or_else(|| missing(step))?;
            let mut all = Collected { batch: Batch { step, groups: Vec::new() }, ..Collected::default() };
            for number in groups {
                let mut members = ended.remove(&number).ok_or_else(|| missing(step))?;
                members.sort_by_key(|m| m.trajectory.sample);
                self.use_group(members, progress, &mut all)?;
            }
            self.fresh_generator(progress)?;
            self.complete(&progress.parts, &mut progress.generator, &mut all.batch)?;
            self.learn(context, progress, all)?;
            let version = u32::try_from(progress.state.step).unwrap_or(u32::MAX);
            driver.set_weights(&mut flow, &progress.trainer.decoder.weights()?, version)?;
            self.after_step(context, progress)?;
        }
        Ok(())
    }
}

/// Why the thread that samples has ended.
fn last_word(ready: &Receiver<Result<Vec<Finished>>>) -> Error {
    ready.iter().find_map(Result::err).unwrap_or_else(|| Error::bug("the thread that samples ended without a word"))
}

/// Version of the oldest sampled token.
fn oldest_version(one: &Finished) -> Option<u32> {
    let t = &one.trajectory;
    t.weights_version.as_ref()?.iter().zip(&t.loss_mask).skip(one.given).filter(|(_, m)| **m).map(|(v, _)| *v).min()
}

/// The groups of every update, in the order in which they entered it. Groups whose every member was lost to the infrastructure are
/// left out, as they were.
fn updates(record: &[Trajectory], steps: u64, size: u32) -> Result<VecDeque<Vec<u32>>> {
    let mut updates: VecDeque<Vec<u32>> = VecDeque::new();
    let mut members: BTreeMap<u32, (u32, bool)> = BTreeMap::new();
    for row in record {
        let step =
            row.id.strip_prefix("rl/").and_then(|rest| rest.split('/').next()).and_then(|s| s.parse::<usize>().ok());
        let step = step.ok_or_else(|| {
            Error::data(format!("row `{}` of input `record` does not name the update that used it", row.id))
                .help("give the output `trajectories` of an asynchronous run")
        })?;
        while updates.len() <= step {
            updates.push_back(Vec::new());
        }
        let group = members.entry(row.group).or_default();
        *group = (group.0 + 1, group.1 | (row.status == Status::Ok));
        if row.status == Status::Ok && !updates[step].contains(&row.group) {
            updates[step].push(row.group);
        }
    }
    let cut = |groups: &Vec<u32>| groups.is_empty() || groups.iter().any(|g| members.get(g).is_none_or(|m| m.0 < size));
    let complete = updates.iter().take_while(|groups| !cut(groups)).count() as u64;
    if complete < steps { Err(missing(complete)) } else { Ok(updates) }
}

fn missing(step: u64) -> Error {
    Error::data(format!("the record does not hold all rollouts of update {step}"))
        .help("it was written with too small a `keep_rollouts`, or for fewer steps")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(group: u32) -> Vec<Finished> {
        vec![Finished { trajectory: Trajectory { group, ..Trajectory::default() }, ..Finished::default() }]
    }

    #[test]
    fn slow_groups_keep_their_places() {
        // Two groups of step 0 still run; both must be used by step 2, one a step: so in step 1 nothing else may be used.
        let mut intake = Intake { open: [(0, 0), (1, 0), (2, 1)].into(), ended: [ended(2)].into() };
        assert!(intake.next(1, 2, 1, 1).is_none());
        intake.ended.push_back(ended(1));
        assert_eq!(intake.next(1, 2, 1, 1), Some(ended(1)), "the newer one waits");
        assert!(intake.next(2, 2, 1, 1).is_none(), "the last one of step 0 is due");
        intake.ended.push_back(ended(0));
        assert_eq!(intake.next(2, 2, 1, 1), Some(ended(0)));
        assert_eq!(intake.next(3, 2, 1, 1), Some(ended(2)));
    }

    #[test]
    fn groups_that_have_time_are_used_in_order_of_arrival() {
        let mut intake = Intake { open: [(0, 0), (1, 0)].into(), ended: [ended(1)].into() };
        assert_eq!(intake.next(0, 2, 2, 2), Some(ended(1)));
    }
}
