//! Runs the loop over live episodes: decodes one token for all, passes finished turns to the environments, and appends
//! tool results.
//!
//! Tools take longer than tokens, so only the episode that called a tool waits for it. The problem's id, the sample,
//! the turn and the token are the key of a draw. Neither the order in which episodes advance nor their number changes
//! any draw.

use super::draw::number_of;
use super::episode_queues::EpisodeQueues;
use super::fork_scheduler::ForkScheduler;
use super::job::{EpisodeJob, EpisodeLimits, ToolWait};
use super::live_episode::{EpisodePoll, LiveEpisode};
use super::record::{RecordContext, record};
use super::rescore;
use std::time::Duration;
use trainyard_api::CancelToken;
use trainyard_core::{Chance, Error, Result};
use trainyard_envs::Environment;
use trainyard_learn::{Rollout, StrategyAction};
use trainyard_lm::backend::Sampler;
use trainyard_lm::folder::ModelFolder;
use trainyard_lm::generate::{SequenceFinish, SequenceId, SequenceRequest};
use trainyard_tables::{Problem, SamplingParams};

/// Time that the loop waits for a tool when no episode can continue.
const WAIT: Duration = Duration::from_millis(20);

/// State shared by the episodes of one call.
pub struct RolloutDriver<'s, 'a> {
    /// Sampler of the policy.
    pub sampler: &'s mut dyn Sampler,
    /// Tokenizer, chat template and limits of the policy.
    pub model: &'a ModelFolder,
    pub environment: &'s dyn Environment,
    pub limits: EpisodeLimits,
    pub sampling: SamplingParams,
    /// Source of all random draws; each episode derives a separate source from its key.
    pub chance: Chance,
    /// Prefix of rollout ids, before `/<problem id>/<sample>`.
    pub name: String,
    /// Cancellation token, checked between decoding steps.
    pub cancel: &'s CancelToken,
}

impl<'a> RolloutDriver<'_, 'a> {
    /// Runs all jobs to their ends and returns the rollouts in the order of the jobs.
    ///
    /// Errors: data, if the policy's logits are not numbers; cancelled; errors of the environment and the tokenizer.
    pub fn run(&mut self, problems: &'a [Problem], jobs: &[EpisodeJob]) -> Result<Vec<Rollout>> {
        self.drain(problems, jobs, EpisodeQueues::default())
    }
    /// Runs all jobs like [`Self::run`], and calls a strategy at the end of every turn. Returns the rollouts by group,
    /// then by sample.
    pub fn run_forking(
        &mut self,
        problems: &'a [Problem],
        jobs: &[EpisodeJob],
        forking: ForkScheduler<'a>,
    ) -> Result<Vec<Rollout>> {
        let mut finished = self.drain(problems, jobs, EpisodeQueues::new(Some(forking)))?;
        finished.sort_by_key(|r| (r.trajectory.group, r.trajectory.sample));
        Ok(finished)
    }
    fn drain(
        &mut self,
        problems: &'a [Problem],
        jobs: &[EpisodeJob],
        mut flow: EpisodeQueues<'a>,
    ) -> Result<Vec<Rollout>> {
        jobs.iter().for_each(|job| flow.submit(job.clone()));
        while flow.unfinished() {
            self.pump(&mut flow, problems)?;
        }
        let mut finished = flow.take_done();
        rescore::rescore_rollouts(self.sampler, &self.sampling, &mut finished)?;
        Ok(finished)
    }

    /// Runs one round: starts episodes for which there is room, decodes one token for all, and collects tool results.
    pub fn pump(&mut self, flow: &mut EpisodeQueues<'a>, problems: &'a [Problem]) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(Error::cancelled("the attempt was cancelled"));
        }
        self.start_some(flow, problems)?;
        if self.sampler.running() > 0 {
            for (id, finish) in self.sampler.step()? {
                self.turn_sampled(flow, id, finish)?;
            }
        }
        self.collect_tools(flow)?;
        if flow.decoding.is_empty() && flow.waiting.is_empty() {
            for live in std::mem::take(&mut flow.ready) {
                self.launch(flow, live)?;
            }
        }
        Ok(())
    }

    /// Starts queued episodes while there is room.
    fn start_some(&mut self, flow: &mut EpisodeQueues<'a>, problems: &'a [Problem]) -> Result<()> {
        // In lockstep a new episode also waits for the next round.
        if self.limits.tool_wait == ToolWait::Batch && flow.in_flight() > 0 && !flow.is_stuck() {
            return Ok(());
        }
        // The limit must not delay an episode for which the others of its group wait.
        let limit = self.most_running();
        while flow.in_flight() < limit || flow.is_stuck() {
            let Some((order, job)) = flow.queue.pop_front() else { return Ok(()) };
            let problem = &problems[job.problem];
            let seed = self.chance.at("episode", &[number_of(problem), job.draw, u64::from(job.sample)]).next_u64();
            let live = LiveEpisode::start(self.model, self.environment, problem, job, order, seed);
            match live.map_err(|e| e.at(format!("problem `{}`", problem.id)))? {
                EpisodePoll::Ready(live) => self.launch(flow, live)?,
                EpisodePoll::Pending(mut live) => {
                    live.set_supports_forms(self.sampler.supports_constraints());
                    flow.waiting.push(live);
                }
                EpisodePoll::Done(live) => self.finish(flow, live)?,
            }
        }
        Ok(())
    }

    /// Returns the maximum number of concurrent episodes: at most the configured number and the number whose keys and
    /// values at full length fit in memory, but at least one.
    pub(super) fn most_running(&self) -> usize {
        let each = self.sampler.cache_bytes(self.limits().episode_tokens);
        let room = self.limits.kv_memory.checked_div(each).unwrap_or(u64::MAX).max(1);
        self.limits.running.min(usize::try_from(room).unwrap_or(usize::MAX))
    }

    /// Returns the limits, capped by the positions of the model's sampler. An episode whose prompt is longer ends at
    /// once; this is not an error of the stage.
    fn limits(&self) -> EpisodeLimits {
        EpisodeLimits { episode_tokens: self.limits.episode_tokens.min(self.sampler.positions()), ..self.limits }
    }

    /// Decodes the next turn of an episode, or ends the episode if no token is left.
    fn launch(&mut self, flow: &mut EpisodeQueues<'a>, mut live: Box<LiveEpisode<'a>>) -> Result<()> {
        let room = live.room(&self.limits());
        if room == 0 {
            live.end_at_length();
            return self.finish(flow, live);
        }
        if live.is_decoding_other() {
            self.settle_sequence(&mut live);
        } else if live.segment.rewritten() {
            self.settle_sequence(&mut live);
            live.segment.base = live.segment.context_first();
        }
        let id = match live.sequence {
            None => {
                let request = SequenceRequest {
                    tokens: live.request_tokens(),
                    draw: live.draw_key(&self.chance),
                    sampling: self.sampling,
                    stop_tokens: self.model.stop_tokens().to_vec(),
                    max_new_tokens: room,
                };
                self.sampler.start(request)?
            }
            Some(id) => {
                self.sampler.append(id, &live.observation, room)?;
                id
            }
        };
        if let Some(constraint) = live.turn_constraint()? {
            self.sampler.constrain(id, constraint)?;
        }
        live.sequence = Some(id);
        flow.decoding.insert(id, live);
        Ok(())
    }
    /// Removes the sequence of an episode from the sampler and moves its samples to its segment.
    fn settle_sequence(&mut self, live: &mut LiveEpisode<'a>) {
        let Some(id) = live.sequence.take() else { return };
        let state = self.sampler.remove(id);
        live.store_samples(state);
    }
    fn turn_sampled(&mut self, flow: &mut EpisodeQueues<'a>, id: SequenceId, finish: SequenceFinish) -> Result<()> {
        let mut live =
            flow.decoding.remove(&id).ok_or_else(|| Error::bug("a sequence finished that no episode owns"))?;
        if finish == SequenceFinish::Nan {
            return Err(Error::data(format!("the policy's logits are not numbers on problem `{}`", live.problem.id))
                .help("the weights hold NaN or have diverged: use an earlier model or a lower learning rate"));
        }
        live.truncated = finish == SequenceFinish::Length;
        match &mut flow.forking {
            None => self.take_turn(flow, live),
            Some(forking) => {
                let group = live.job.group;
                forking.park(live);
                self.settle(flow, group)
            }
        }
    }
    /// Passes a sampled turn to the environment.
    fn take_turn(&mut self, flow: &mut EpisodeQueues<'a>, mut live: Box<LiveEpisode<'a>>) -> Result<()> {
        if let Some(id) = live.sequence {
            live.send_turn_tokens(self.sampler.sequence(id))?;
        }
        live.turn_ended(self.environment, &self.sampled(&live)?)?;
        self.advance(flow, live, Duration::ZERO)
    }
    fn sampled(&self, live: &LiveEpisode<'a>) -> Result<Vec<u32>> {
        let id = live.sequence.ok_or_else(|| Error::bug("an episode without a sequence has sampled a turn"))?;
        Ok(self.sampler.sequence(id).sampled_in_turn().to_vec())
    }

    /// Queries the strategy about every living sequence of a group, once all of them have sampled a turn.
    fn settle(&mut self, flow: &mut EpisodeQueues<'a>, group: u32) -> Result<()> {
        let Some(parked) = flow.forking.as_mut().and_then(|f| f.all_parked(group)) else { return Ok(()) };
        for live in parked {
            let id = live.sequence.ok_or_else(|| Error::bug("a parked episode has no sequence"))?;
            let view = live.view(self.sampler.sequence(id));
            let action = match &mut flow.forking {
                Some(forking) => forking.decide(group, &view),
                None => StrategyAction::Continue,
            };
            match action {
                StrategyAction::Continue => self.take_turn(flow, live)?,
                StrategyAction::Stop => self.stop(flow, live)?,
                StrategyAction::Fork { at, copies } => {
                    self.fork(flow, &live, at, copies)?;
                    self.take_turn(flow, live)?;
                }
            }
        }
        Ok(())
    }
    fn fork(&mut self, flow: &mut EpisodeQueues<'a>, parent: &LiveEpisode<'a>, at: usize, copies: u32) -> Result<()> {
        let id = parent.sequence.ok_or_else(|| Error::bug("an episode without a sequence cannot be forked"))?;
        // A copy samples at least the last token itself; otherwise its turn would equal the parent's.
        let last = parent.segment.base + self.sampler.sequence(id).token_ids.len().saturating_sub(1);
        let at = at.clamp(parent.first(), last);
        for _ in 0..copies {
            let Some(sample) = flow.forking.as_mut().and_then(|f| f.reserve_sample(parent.job.group)) else {
                return Ok(());
            };
            let mut child = parent.fork(at, sample, flow.submitted)?;
            flow.submitted += 1;
            let sequence = self.sampler.fork(id, at - child.segment.base, child.draw_key(&self.chance))?;
            child.sequence = Some(sequence);
            flow.decoding.insert(sequence, child);
        }
        Ok(())
    }
    /// Ends an episode by the strategy's decision. Its last turn is recorded, but not passed to the environment.
    fn stop(&mut self, flow: &mut EpisodeQueues<'a>, mut live: Box<LiveEpisode<'a>>) -> Result<()> {
        let sampled = self.sampled(&live)?;
        live.stopped(self.environment, &sampled)?;
        self.finish(flow, live)
    }

    /// Polls the tools of all waiting episodes; waits briefly on the first if nothing decodes.
    fn collect_tools(&mut self, flow: &mut EpisodeQueues<'a>) -> Result<()> {
        let idle = self.sampler.running() == 0;
        for (k, live) in std::mem::take(&mut flow.waiting).into_iter().enumerate() {
            let wait = if idle && k == 0 { WAIT } else { Duration::ZERO };
            self.advance(flow, live, wait)?;
        }
        Ok(())
    }

    /// Advances an episode as far as possible without decoding.
    fn advance(&mut self, flow: &mut EpisodeQueues<'a>, live: Box<LiveEpisode<'a>>, wait: Duration) -> Result<()> {
        match live.poll(self.environment, &self.limits(), wait)? {
            EpisodePoll::Ready(live) if self.limits.tool_wait == ToolWait::Batch => flow.ready.push(live),
            EpisodePoll::Ready(live) => self.launch(flow, live)?,
            EpisodePoll::Pending(live) => flow.waiting.push(live),
            EpisodePoll::Done(live) => self.finish(flow, live)?,
        }
        Ok(())
    }

    fn finish(&mut self, flow: &mut EpisodeQueues<'a>, mut live: Box<LiveEpisode<'a>>) -> Result<()> {
        self.settle_sequence(&mut live);
        let (order, group) = (live.order, live.job.group);
        let setting = RecordContext {
            model: self.model,
            environment: self.environment,
            sampling: self.sampling,
            name: &self.name,
        };
        flow.done.push((order, record(*live, &setting)?));
        let Some(forking) = &mut flow.forking else { return Ok(()) };
        let more = forking.member_ended(group);
        more.into_iter().for_each(|job| flow.submit(job));
        self.settle(flow, group)
    }
}
