//! The loop over live episodes: decode one token for all, hand finished turns over, collect tool results, append, go on.
//!
//! Why so: tools take longer than tokens, so only the episode that called one waits for it. Draws are keyed by the id of the problem, the
//! sample, the turn and the token, so neither the order in which episodes move nor how many run at once changes any of them. Where an episode
//! stands is [`Flow`]'s, what it is [`Live`]'s, so that asynchronous and repeated runs drive the same loop. Refuses: logits that are not
//! numbers (it names the problem), and more than [`Limits::running`] sequences, unless a group that forks, or a run that is repeated, would
//! wait for itself.

use super::flow::Flow;
use super::forking::Forking;
use super::job::{Job, Limits, ToolWait};
use super::live::{Live, Progress};
use super::record::Finished;
use super::rescore;
use std::time::Duration;
use trainyard_api::CancelToken;
use trainyard_core::{Chance, Digest, Error, Result};
use trainyard_envs::Environment;
use trainyard_learn::Action;
use trainyard_lm::Weights;
use trainyard_lm::folder::ModelFolder;
use trainyard_lm::generate::{DrawKey, Finish, Generator, Request, SequenceId};
use trainyard_tables::{Problem, Sampling};

/// How long the loop sleeps on a tool when nothing else can go on.
const WAIT: Duration = Duration::from_millis(20);

/// Everything that episodes of one call share.
pub struct Driver<'a> {
    pub generator: &'a mut Generator,
    pub model: &'a ModelFolder,
    pub environment: &'a dyn Environment,
    pub limits: Limits,
    pub sampling: Sampling,
    pub chance: Chance,
    /// Put before `/<problem id>/<sample>` in rollout ids.
    pub name: String,
    pub cancel: &'a CancelToken,
}

impl<'a> Driver<'a> {
    /// Runs all jobs to their ends; results stand in the order of the jobs.
    ///
    /// Errors: data, when the policy's logits are not numbers; cancelled; what the environment or the tokenizer refuses.
    pub fn run(&mut self, problems: &'a [Problem], jobs: &[Job]) -> Result<Vec<Finished>> {
        self.drain(problems, jobs, Flow::default())
    }
    /// As [`Self::run`], asking a strategy at the end of every turn; results by group, then by sample.
    pub fn run_forking(
        &mut self,
        problems: &'a [Problem],
        jobs: &[Job],
        forking: Forking<'a>,
    ) -> Result<Vec<Finished>> {
        let mut finished = self.drain(problems, jobs, Flow::new(Some(forking)))?;
        finished.sort_by_key(|f| (f.trajectory.group, f.trajectory.sample));
        Ok(finished)
    }
    fn drain(&mut self, problems: &'a [Problem], jobs: &[Job], mut flow: Flow<'a>) -> Result<Vec<Finished>> {
        jobs.iter().for_each(|job| flow.submit(job.clone()));
        while flow.unfinished() {
            self.pump(&mut flow, problems)?;
        }
        let mut finished = flow.take_done();
        rescore::as_recorded(self.generator, &self.sampling, &mut finished)?;
        Ok(finished)
    }

    /// One round: start what has room, decode one token for all, take what the tools have answered.
    pub fn pump(&mut self, flow: &mut Flow<'a>, problems: &'a [Problem]) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(Error::cancelled("the attempt was cancelled"));
        }
        self.start_some(flow, problems)?;
        if self.generator.running() > 0 {
            for (id, finish) in self.generator.step()? {
                self.turn_sampled(flow, id, finish)?;
            }
        }
        self.collect_tools(flow)?;
        if flow.decoding.is_empty() && flow.waiting.is_empty() {
            for live in std::mem::take(&mut flow.held) {
                self.launch(flow, live)?;
            }
        }
        Ok(())
    }

    /// New weights: every paused sequence goes on as far as its record says.
    pub fn set_weights(&mut self, flow: &mut Flow<'a>, weights: &Weights, version: u32) -> Result<()> {
        self.generator.update(weights, version)?;
        flow.set_version(version);
        for (live, in_turn) in std::mem::take(&mut flow.paused) {
            let Some(id) = live.sequence.filter(|_| in_turn) else {
                self.launch(flow, live)?;
                continue;
            };
            let state = self.generator.sequence(id);
            let (length, sampled) = (state.token_ids.len(), state.sampled_in_turn().len());
            match flow.allowed(&live.job, length) {
                0 => flow.paused.push((live, true)),
                allowed => {
                    self.generator.resume(id, live.limit.min(sampled.saturating_add(allowed)))?;
                    flow.decoding.insert(id, live);
                }
            }
        }
        Ok(())
    }

    /// Fills the free places.
    fn start_some(&mut self, flow: &mut Flow<'a>, problems: &'a [Problem]) -> Result<()> {
        // In lockstep a new episode waits for the next round, too.
        if self.limits.tool_wait == ToolWait::Batch && flow.in_flight() > 0 && !flow.stuck() {
            return Ok(());
        }
        // A run that is repeated starts what its record started: a limit could hold back what must end before the weights change. Nor
        // may it hold back those that the others of their group wait for.
        while flow.schedule.is_some() || flow.in_flight() < self.limits.running || flow.stuck() {
            let Some((order, job)) = flow.queue.pop_front() else { return Ok(()) };
            let problem = &problems[job.problem];
            let seed = self.chance.at("episode", &[number_of(problem), job.draw, u64::from(job.sample)]).next_u64();
            let live = Live::start(self.model, self.environment, problem, job, order, seed);
            match live.map_err(|e| e.at(format!("problem `{}`", problem.id)))? {
                Progress::Ready(live) => self.launch(flow, live)?,
                Progress::Pending(live) => flow.waiting.push(live),
                Progress::Done(live) => self.finish(flow, live)?,
            }
        }
        Ok(())
    }

    /// Most tokens of an episode. A prompt beyond the model's positions ends its episode at once; it is no error of the stage.
    fn limits(&self) -> Limits {
        Limits {
            episode_tokens: self.limits.episode_tokens.min(self.model.config.max_position_embeddings),
            ..self.limits
        }
    }

    /// Decodes the next turn of an episode, or ends it when no token is left.
    fn launch(&mut self, flow: &mut Flow<'a>, mut live: Box<Live<'a>>) -> Result<()> {
        let room = live.room(&self.limits());
        if room == 0 {
            live.end_at_length();
            return self.finish(flow, live);
        }
        let allowed = flow.allowed(&live.job, live.first());
        if allowed == 0 {
            flow.paused.push((live, false));
            return Ok(());
        }
        live.limit = room;
        let room = room.min(allowed);
        let id = match live.sequence {
            None => {
                let request = Request {
                    tokens: live.request_tokens(),
                    draw: self.draw_key(live.problem, &live.job),
                    sampling: self.sampling,
                    stop_tokens: self.model.stop_tokens().to_vec(),
                    max_new_tokens: room,
                };
                self.generator.add(request)?
            }
            Some(id) => {
                self.generator.append(id, &live.observation, room)?;
                id
            }
        };
        live.sequence = Some(id);
        flow.decoding.insert(id, live);
        Ok(())
    }
    fn draw_key(&self, problem: &Problem, job: &Job) -> DrawKey {
        DrawKey {
            chance: self.chance.child("draw", &[job.draw]),
            problem: number_of(problem),
            sample: u64::from(job.sample),
        }
    }

    fn turn_sampled(&mut self, flow: &mut Flow<'a>, id: SequenceId, finish: Finish) -> Result<()> {
        let mut live =
            flow.decoding.remove(&id).ok_or_else(|| Error::bug("a sequence finished that no episode owns"))?;
        if finish == Finish::Nan {
            return Err(Error::data(format!("the policy's logits are not numbers on problem `{}`", live.problem.id))
                .help("the weights hold NaN or have diverged: use an earlier model or a lower learning rate"));
        }
        if flow.schedule.is_some()
            && finish == Finish::Length
            && self.generator.sequence(id).sampled_in_turn().len() < live.limit
        {
            flow.paused.push((live, true));
            return Ok(());
        }
        live.cut = finish == Finish::Length;
        match &mut flow.forking {
            None => self.take_turn(flow, live),
            Some(forking) => {
                let group = live.job.group;
                forking.park(live);
                self.settle(flow, group)
            }
        }
    }
    /// Hands a sampled turn to the environment.
    fn take_turn(&mut self, flow: &mut Flow<'a>, mut live: Box<Live<'a>>) -> Result<()> {
        live.turn_ended(self.environment, &self.sampled(&live)?)?;
        self.advance(flow, live, Duration::ZERO)
    }
    fn sampled(&self, live: &Live<'a>) -> Result<Vec<u32>> {
        let id = live.sequence.ok_or_else(|| Error::bug("an episode without a sequence has sampled a turn"))?;
        Ok(self.generator.sequence(id).sampled_in_turn().to_vec())
    }

    /// Asks the strategy about every living sequence of a group, once all have sampled a turn.
    fn settle(&mut self, flow: &mut Flow<'a>, group: u32) -> Result<()> {
        let Some(parked) = flow.forking.as_mut().and_then(|f| f.all_parked(group)) else { return Ok(()) };
        for live in parked {
            let id = live.sequence.ok_or_else(|| Error::bug("a parked episode has no sequence"))?;
            let view = live.view(self.generator.sequence(id));
            let action = match &mut flow.forking {
                Some(forking) => forking.ask(group, &view),
                None => Action::Continue,
            };
            match action {
                Action::Continue => self.take_turn(flow, live)?,
                Action::Stop => self.stop(flow, live)?,
                Action::Fork { at, copies } => {
                    self.fork(flow, &live, at, copies)?;
                    self.take_turn(flow, live)?;
                }
            }
        }
        Ok(())
    }
    fn fork(&mut self, flow: &mut Flow<'a>, parent: &Live<'a>, at: usize, copies: u32) -> Result<()> {
        let id = parent.sequence.ok_or_else(|| Error::bug("an episode without a sequence cannot be forked"))?;
        // The last token is sampled anew: behind it the turn would be the parent's.
        let at = at.clamp(parent.first(), self.generator.sequence(id).token_ids.len().saturating_sub(1));
        for _ in 0..copies {
            let Some(sample) = flow.forking.as_mut().and_then(|f| f.take_place(parent.job.group)) else {
                return Ok(());
            };
            let mut child = parent.fork(at, sample, flow.submitted)?;
            flow.submitted += 1;
            let sequence = self.generator.fork(id, at, self.draw_key(child.problem, &child.job))?;
            child.sequence = Some(sequence);
            flow.decoding.insert(sequence, child);
        }
        Ok(())
    }
    /// The strategy ends an episode: its last turn is recorded, but its environment does not see it.
    fn stop(&mut self, flow: &mut Flow<'a>, mut live: Box<Live<'a>>) -> Result<()> {
        let sampled = self.sampled(&live)?;
        live.stopped(self.environment, &sampled)?;
        self.finish(flow, live)
    }

    /// Looks at the tools of all waiting episodes; sleeps a little on the first if nothing decodes.
    fn collect_tools(&mut self, flow: &mut Flow<'a>) -> Result<()> {
        let idle = self.generator.running() == 0;
        for (k, live) in std::mem::take(&mut flow.waiting).into_iter().enumerate() {
            let wait = if idle && k == 0 { WAIT } else { Duration::ZERO };
            self.advance(flow, live, wait)?;
        }
        Ok(())
    }

    /// Takes an episode as far as it goes without decoding.
    fn advance(&mut self, flow: &mut Flow<'a>, live: Box<Live<'a>>, wait: Duration) -> Result<()> {
        match live.poll(self.environment, &self.limits(), wait)? {
            Progress::Ready(live) if self.limits.tool_wait == ToolWait::Batch => flow.held.push(live),
            Progress::Ready(live) => self.launch(flow, live)?,
            Progress::Pending(live) => flow.waiting.push(live),
            Progress::Done(live) => self.finish(flow, live)?,
        }
        Ok(())
    }

    fn finish(&mut self, flow: &mut Flow<'a>, live: Box<Live<'a>>) -> Result<()> {
        let state = live.sequence.map(|id| self.generator.remove(id));
        let (order, group) = (live.order, live.job.group);
        flow.done.push((order, live.record(state, self)?));
        let Some(forking) = &mut flow.forking else { return Ok(()) };
        let more = forking.ended(group);
        more.into_iter().for_each(|job| flow.submit(job));
        self.settle(flow, group)
    }
}

/// What a problem is called in draws: a number that its id alone decides.
fn number_of(problem: &Problem) -> u64 {
    let digest = Digest::of(problem.id.as_bytes());
    digest
        .as_str()
        .chars()
        .take(16)
        .filter_map(|c| c.to_digit(16))
        .fold(0, |number, digit| (number << 4) | u64::from(digit))
}
