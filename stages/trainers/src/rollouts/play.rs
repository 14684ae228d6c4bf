//! Runs the episodes of one step in the environment with the trainer's tokens, scores them together, and sends them to
//! the trainer.

use super::declared::REWARD;
use super::options::RolloutOptions;
use super::wire::{
    StageMessage, TrainerConnection, TrainerEpisode, TrainerMessage, TrainerTurnRequest, trainer_exited,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_api::CancelToken;
use trainyard_core::error::io_error;
use trainyard_core::{Chance, Error, Result};
use trainyard_envs::Environment;
use trainyard_learn::Rollout;
use trainyard_lm::ModelFolder;
use trainyard_lm::backend::turn_source::{self, OpenTurnRequest, TurnSource};
use trainyard_tables::{EpisodeStatus, Problem};
use trainyard_train::rewards::{Rewards, ScoredGroup};
use trainyard_train::rollouts::{EpisodeJob, RolloutDriver};

/// Name of the file in a checkpoint that holds the state of rewards across steps.
const STATE: &str = "trainyard_rewards.json";

/// Settings of the rollouts.
pub struct RolloutSettings<'p> {
    /// Tokenizer, chat template and sizes of the policy. The trainer has its weights.
    pub model: ModelFolder,
    pub environment: Box<dyn Environment>,
    /// Problems with distinct ids.
    pub problems: Vec<Problem>,
    pub rewards: Rewards,
    /// Sampling of episodes.
    pub rollout: &'p RolloutOptions,
    /// Random source of the environment.
    pub chance: Chance,
    /// Total optimizer steps of the training.
    pub steps: u64,
}

/// Rollouts for a trainer, with state across steps.
pub struct RolloutService<'p> {
    settings: RolloutSettings<'p>,
    /// Index of a problem in the list by its id.
    indices: BTreeMap<String, usize>,
    components: Vec<(String, f64)>,
}

impl<'p> RolloutService<'p> {
    /// Creates the service; no episode runs yet.
    pub fn new(settings: RolloutSettings<'p>) -> Self {
        let indices =
            settings.problems.iter().enumerate().map(|(index, problem)| (problem.id.clone(), index)).collect();
        let components = settings.rewards.weights().map(|(name, weight)| (name.to_string(), weight)).collect();
        Self { settings, indices, components }
    }
    /// Returns the ids of all problems, in order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = &str> {
        self.settings.problems.iter().map(|problem| problem.id.as_str())
    }
    /// Restores the state of the rewards from a checkpoint of the trainer. Errors: those of reading; data (a file that
    /// this program did not write).
    pub fn resume(&mut self, checkpoint: &Path) -> Result<()> {
        let path = checkpoint.join(STATE);
        let text = std::fs::read(&path).map_err(|e| io_error(&path, &e))?;
        let state: Value =
            serde_json::from_slice(&text).map_err(|e| Error::data(format!("{}: {e}", path.display())))?;
        self.settings.rewards.load(&state)
    }
    /// Returns the state of the rewards for a checkpoint of the trainer.
    pub(super) fn state(&self) -> Value {
        self.settings.rewards.save()
    }
    pub(super) fn opened_message(&self) -> StageMessage<'_> {
        StageMessage::Opened { rewards: &self.components, stop: self.settings.model.stop_tokens() }
    }

    /// Runs `members` episodes of each problem in `ids`, and scores them. Returns the episodes in order, and the means
    /// of their metrics. `cancel` ends the episodes early.
    ///
    /// Errors: data (an unknown problem, or invalid turns), retryable (all episodes failed in the infrastructure), and
    /// those of the environment and the rewards.
    pub(super) fn play(
        &mut self,
        (step, round): (u64, u64),
        ids: &[String],
        members: u32,
        wire: &Arc<Mutex<TrainerConnection>>,
        cancel: &CancelToken,
    ) -> Result<(Vec<TrainerEpisode>, BTreeMap<String, f64>)> {
        let mut jobs = Vec::new();
        for (group, id) in (0..).zip(ids) {
            let index = self.indices.get(id);
            let problem =
                *index.ok_or_else(|| Error::data(format!("the trainer requested the unknown problem `{id}`")))?;
            let job = |sample| EpisodeJob { group, draw: u64::from(group), ..EpisodeJob::root(problem, sample) };
            jobs.extend((0..members).map(job));
        }
        let RolloutSettings { model, environment, problems, rollout, chance, .. } = &self.settings;
        let mut sampler = turn_source::sampler(TrainerTurns(Arc::clone(wire)), &model.config);
        let mut driver = RolloutDriver {
            sampler: &mut *sampler,
            model,
            environment: &**environment,
            limits: rollout.limits(),
            sampling: rollout.sampling(),
            chance: chance.child("step", &[step, round]),
            name: format!("practice/{step}/{round}"),
            cancel,
        };
        let mut rollouts = driver.run(problems, &jobs)?;
        self.score(&mut rollouts, &jobs, step)?;
        let mut metrics = means(&rollouts)?;
        metrics.extend(self.settings.rewards.metrics());
        let stop = self.settings.model.stop_tokens();
        let episodes = rollouts.into_iter().map(|rollout| episode(rollout, stop)).collect::<Result<_>>()?;
        Ok((episodes, metrics))
    }

    /// Scores each group separately, without the episodes that failed in the infrastructure.
    fn score(&mut self, rollouts: &mut [Rollout], jobs: &[EpisodeJob], step: u64) -> Result<()> {
        let RolloutSettings { problems, rewards, steps, .. } = &mut self.settings;
        let mut groups: BTreeMap<u32, ScoredGroup<'_>> = BTreeMap::new();
        for (rollout, job) in rollouts.iter_mut().zip(jobs).filter(|(rollout, _)| is_counted(rollout)) {
            let problem = &problems[job.problem];
            let new_group = || ScoredGroup { problem, members: Vec::new(), correct: Vec::new() };
            let group = groups.entry(job.group).or_insert_with(new_group);
            group.correct.push(rollout.correct);
            group.members.push(&mut rollout.trajectory);
        }
        let mut groups: Vec<ScoredGroup<'_>> = groups.into_values().collect();
        rewards.score_groups(&mut groups, step, *steps)
    }
}

fn is_counted(rollout: &Rollout) -> bool {
    rollout.trajectory.status != EpisodeStatus::Infrastructure
}

/// Turn source that requests turns from the trainer.
struct TrainerTurns(Arc<Mutex<TrainerConnection>>);

impl TurnSource for TrainerTurns {
    fn draw(&mut self, open: &[OpenTurnRequest<'_>]) -> Result<Vec<Vec<u32>>> {
        let mut wire = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = open
            .iter()
            .map(|request| TrainerTurnRequest { tokens: request.tokens, most: request.max_tokens })
            .collect();
        wire.send(&StageMessage::Say(turns))?;
        match wire.receive()? {
            Some(TrainerMessage::Said(turns)) => Ok(turns),
            Some(_) => Err(Error::data("the trainer did not respond to `say` with `said`")
                .help("respond to each `say` with one `said`")),
            None => Err(trainer_exited()),
        }
    }
}

/// Returns the means over the episodes that count. Errors: retryable, if no episode counts.
fn means(rollouts: &[Rollout]) -> Result<BTreeMap<String, f64>> {
    let counted: Vec<&Rollout> = rollouts.iter().filter(|rollout| is_counted(rollout)).collect();
    if counted.is_empty() {
        let message = format!("all {} episodes of a step failed in the infrastructure", rollouts.len());
        return Err(Error::retryable(message).help("check the tools and programs of the environment"));
    }
    let mean = |of: fn(&Rollout) -> f64| counted.iter().map(|one| of(one)).sum::<f64>() / counted.len() as f64;
    let failed = (rollouts.len() - counted.len()) as f64 / rollouts.len() as f64;
    let named = [
        ("pass_rate", mean(|one| f64::from(u8::from(one.correct)))),
        ("turns", mean(|one| f64::from(one.trajectory.turns))),
        ("tool_calls", mean(|one| f64::from(one.trajectory.tool_calls))),
        ("tool_errors", mean(|one| f64::from(one.trajectory.tool_errors))),
        ("infrastructure_failures", failed),
    ];
    debug_assert!(named.iter().all(|(name, _)| *name != REWARD));
    Ok(named.map(|(name, value)| (name.to_string(), value)).into())
}

/// Converts an episode to the trainer's form. Errors: invalid, if the chat template splits the episode into several
/// sequences.
fn episode(rollout: Rollout, stop: &[u32]) -> Result<TrainerEpisode> {
    let counted = is_counted(&rollout);
    let row = rollout.trajectory;
    if !row.restarts.is_empty() {
        let message = format!("problem `{}`: the chat template rewrites earlier turns", row.problem_id);
        return Err(Error::invalid(message).help(
            "a trainer gets an episode as one sequence: use a template that keeps earlier turns, or `uses: rl`",
        ));
    }
    let mut prompt = row.token_ids;
    let mut completion = prompt.split_off(row.prompt_tokens as usize);
    let learned = &row.loss_mask[prompt.len()..];
    // The trainer does not need messages after the last turn.
    completion.truncate(learned.iter().rposition(|sampled| *sampled).map_or(0, |last| last + 1));
    let mut mask: Vec<u8> =
        learned.iter().take(completion.len()).map(|sampled| u8::from(*sampled && counted)).collect();
    if completion.is_empty() {
        // The prompt leaves no room for a turn, but trainers require at least one token.
        completion.push(stop.first().copied().unwrap_or(0));
        mask.push(0);
    }
    let rewards = if counted { row.rewards } else { BTreeMap::new() };
    Ok(TrainerEpisode { prompt, completion, mask, rewards })
}
