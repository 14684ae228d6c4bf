//! The loop over live episodes: decode one token for all, hand finished turns over, collect tool results, append, go on.

use super::live::{Live, Progress};
use super::record::Finished;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use trainyard_api::CancelToken;
use trainyard_core::{Chance, Error, Result};
use trainyard_envs::Environment;
use trainyard_lm::folder::ModelFolder;
use trainyard_lm::generate::{DrawKey, Finish, Generator, Request, SequenceId};
use trainyard_tables::{Problem, Sampling};

/// How long the loop sleeps on a tool when nothing else can go on.
const WAIT: Duration = Duration::from_millis(20);

/// Limits of an episode, in tokens and turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub turn_tokens: usize,
    /// Prompt, turns and observations together.
    pub episode_tokens: usize,
    /// None = the environment's.
    pub turns: Option<u32>,
    /// Sequences decoded at the same time.
    pub running: usize,
}

/// Where an episode begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Start {
    /// At the prompt.
    #[default]
    Root,
    /// In the middle of an earlier episode: whole turns as sampled (stop token included), then the first tokens of the next one. The
    /// turns are replayed in a fresh environment, which answers as it did.
    Prefix { turns: Vec<Vec<u32>>, partial: Vec<u32> },
}

/// One episode to run.
#[derive(Debug, Clone)]
pub struct Job {
    /// Place in the list of problems.
    pub problem: usize,
    /// Names the draws together with `sample`; usually the problem's place in its artifact.
    pub draw: u64,
    pub group: u32,
    pub sample: u32,
    pub start: Start,
}

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
    pub fn run(&mut self, problems: &[Problem], jobs: &[Job]) -> Result<Vec<Finished>> {
        // A prompt beyond the model's positions ends its episode at once; it is no error of the stage.
        self.limits.episode_tokens = self.limits.episode_tokens.min(self.model.config.max_position_embeddings);
        let mut pool =
            Pool { queue: (0..jobs.len()).collect(), decoding: BTreeMap::new(), waiting: Vec::new(), done: vec![None; jobs.len()] };
        while let Some(()) = pool.unfinished() {
            if self.cancel.is_cancelled() {
                return Err(Error::cancelled("the attempt was cancelled"));
            }
            self.start_some(&mut pool, problems, jobs)?;
            if self.generator.running() > 0 {
                for (id, finish) in self.generator.step()? {
                    self.turn_ended(&mut pool, id, finish, problems, jobs)?;
                }
            }
            self.collect_tools(&mut pool, problems, jobs)?;
        }
        Ok(pool.done.into_iter().map(|d| d.expect("every job ends")).collect())
    }

    /// Fills the free places.
    fn start_some(&mut self, pool: &mut Pool<'a>, problems: &[Problem], jobs: &[Job]) -> Result<()> {
        while pool.decoding.len() + pool.waiting.len() < self.limits.running {
            let Some(index) = pool.queue.pop_front() else { return Ok(()) };
            let job = &jobs[index];
            let problem = &problems[job.problem];
            let seed = self.chance.at("episode", &[job.draw, u64::from(job.sample)]).next_u64();
            let live =
                Live::start(self.model, self.environment, problem, job, seed).map_err(|e| e.at(format!("problem `{}`", problem.id)))?;
            match live {
                Progress::Ready(live) => self.launch(pool, index, live, problems, jobs)?,
                Progress::Pending(live) => pool.waiting.push((index, live)),
                Progress::Done(live) => self.finish(pool, index, live, problems, jobs)?,
            }
        }
        Ok(())
    }

    /// Decodes the next turn of an episode, or ends it when no token is left.
    fn launch(&mut self, pool: &mut Pool<'a>, index: usize, mut live: Box<Live<'a>>, problems: &[Problem], jobs: &[Job]) -> Result<()> {
        let job = &jobs[index];
        let room = live.room(&self.limits);
        if room == 0 {
            live.end_at_length();
            return self.finish(pool, index, live, problems, jobs);
        }
        let id = match live.sequence {
            None => {
                let request = Request {
                    tokens: live.request_tokens(),
                    draw: DrawKey { chance: self.chance, problem: job.draw, sample: u64::from(job.sample) },
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
        pool.decoding.insert(id, (index, live));
        Ok(())
    }

    fn turn_ended(&mut self, pool: &mut Pool<'a>, id: SequenceId, finish: Finish, problems: &[Problem], jobs: &[Job]) -> Result<()> {
        let (index, mut live) = pool.decoding.remove(&id).ok_or_else(|| Error::bug("a sequence finished that no episode owns"))?;
        if finish == Finish::Nan {
            let problem = &problems[jobs[index].problem];
            return Err(Error::data(format!("the policy's logits are not numbers on problem `{}`", problem.id))
                .help("the weights hold NaN or have diverged: use an earlier model or a lower learning rate"));
        }
        let sampled = self.generator.sequence(id).sampled_in_turn().to_vec();
        live.turn_ended(self.environment, &sampled, finish == Finish::Length)?;
        self.advance(pool, index, live, Duration::ZERO, problems, jobs)
    }

    /// Looks at the tools of all waiting episodes; sleeps a little on the first if nothing decodes.
    fn collect_tools(&mut self, pool: &mut Pool<'a>, problems: &[Problem], jobs: &[Job]) -> Result<()> {
        let idle = self.generator.running() == 0;
        for (k, (index, live)) in std::mem::take(&mut pool.waiting).into_iter().enumerate() {
            let wait = if idle && k == 0 { WAIT } else { Duration::ZERO };
            self.advance(pool, index, live, wait, problems, jobs)?;
        }
        Ok(())
    }

    /// Takes an episode as far as it goes without decoding.
    fn advance(
        &mut self,
        pool: &mut Pool<'a>,
        index: usize,
        live: Box<Live<'a>>,
        wait: Duration,
        problems: &[Problem],
        jobs: &[Job],
    ) -> Result<()> {
        match live.poll(self.environment, &self.limits, wait)? {
            Progress::Ready(live) => self.launch(pool, index, live, problems, jobs),
            Progress::Pending(live) => {
                pool.waiting.push((index, live));
                Ok(())
            }
            Progress::Done(live) => self.finish(pool, index, live, problems, jobs),
        }
    }

    fn finish(&mut self, pool: &mut Pool<'a>, index: usize, live: Box<Live<'a>>, problems: &[Problem], jobs: &[Job]) -> Result<()> {
        let state = live.sequence.map(|id| self.generator.remove(id));
        let job = &jobs[index];
        let problem = &problems[job.problem];
        pool.done[index] = Some(live.record(state, problem, job, self)?);
        Ok(())
    }
}

/// Where every job stands.
struct Pool<'a> {
    queue: VecDeque<usize>,
    decoding: BTreeMap<SequenceId, (usize, Box<Live<'a>>)>,
    waiting: Vec<(usize, Box<Live<'a>>)>,
    done: Vec<Option<Finished>>,
}

impl Pool<'_> {
    fn unfinished(&self) -> Option<()> {
        (!self.queue.is_empty() || !self.decoding.is_empty() || !self.waiting.is_empty()).then_some(())
    }
}
