//! One episode in flight: its conversation, its environment, its sequence in the generator.

use super::driver::{Driver, Job, Limits, Start};
use super::record::{self, Finished};
use std::time::Duration;
use trainyard_core::{Error, Result};
use trainyard_envs::{AgentTurn, Environment, Episode, Observation, Outcome, Step};
use trainyard_learn::TurnSummary;
use trainyard_lm::folder::ModelFolder;
use trainyard_lm::generate::{SequenceId, SequenceState};
use trainyard_lm::template::{Conversation, RenderOptions};
use trainyard_tables::{Message, Problem, Status, StopReason};

/// How often a tool is asked while a prefix is replayed.
const REPLAY_WAIT: Duration = Duration::from_millis(50);

/// What an episode can do next.
pub enum Progress<'a> {
    /// Decode its next turn.
    Ready(Box<Live<'a>>),
    /// Its tools run.
    Pending(Box<Live<'a>>),
    Done(Box<Live<'a>>),
}

pub struct Live<'a> {
    pub(super) conversation: Conversation<'a>,
    episode: Box<dyn Episode>,
    /// None before the first turn is decoded.
    pub(super) sequence: Option<SequenceId>,
    /// Tokens to append before the next turn is decoded.
    pub(super) observation: Vec<u32>,
    /// First tokens of the present turn that were given, not sampled.
    forced: Vec<u32>,
    pub(super) turns: Vec<TurnSummary>,
    pub(super) outcome: Option<Outcome>,
    /// Set while the answer of `episode` to the last turn is outstanding.
    step: Option<Step>,
    pub(super) tool_calls: u32,
    pub(super) tool_errors: u32,
    pub(super) seed: u64,
}

impl<'a> Live<'a> {
    /// Opens the first turn, or replays a prefix up to the turn that it ends in.
    pub fn start(model: &'a ModelFolder, environment: &dyn Environment, problem: &Problem, job: &Job, seed: u64) -> Result<Progress<'a>> {
        let mut conversation = Conversation::new(&model.chat, RenderOptions::default());
        conversation.extend(&environment.prompt(problem))?;
        conversation.open_turn()?;
        let episode = environment.start(problem, seed)?;
        let mut live = Box::new(Self {
            conversation,
            episode,
            sequence: None,
            observation: Vec::new(),
            forced: Vec::new(),
            turns: Vec::new(),
            outcome: None,
            step: None,
            tool_calls: 0,
            tool_errors: 0,
            seed,
        });
        if let Start::Prefix { turns, partial } = &job.start {
            for turn in turns {
                if let Some(ended) = live.replay(environment, turn)? {
                    return Ok(ended);
                }
            }
            live.forced = partial.clone();
        }
        Ok(Progress::Ready(live))
    }

    /// Hands over a whole turn of an earlier episode and waits for its observation. Some = the episode ended.
    fn replay(self: &mut Box<Self>, environment: &dyn Environment, turn: &[u32]) -> Result<Option<Progress<'a>>> {
        self.turn_ended(environment, turn, false)?;
        loop {
            match self.step.take() {
                Some(Step::Observe(observation)) => {
                    self.observe(observation, usize::MAX)?;
                    self.observation.clear();
                    return Ok(None);
                }
                Some(Step::Done(_)) => return Err(Error::bug("a prefix goes on after the end of its episode")),
                Some(Step::Pending) | None => self.step = self.episode.poll(REPLAY_WAIT),
            }
        }
    }

    /// Tokens that the next turn may sample; 0 = the episode is full.
    pub fn room(&self, limits: &Limits) -> usize {
        let used = self.conversation.encoded().token_ids.len() + self.forced.len();
        limits.turn_tokens.saturating_sub(self.forced.len()).min(limits.episode_tokens.saturating_sub(used))
    }
    /// The tokens that the generator continues.
    pub fn request_tokens(&self) -> Vec<u32> {
        let mut tokens = self.conversation.encoded().token_ids.clone();
        tokens.extend_from_slice(&self.forced);
        tokens
    }

    /// Hands a finished turn to the environment.
    pub fn turn_ended(&mut self, environment: &dyn Environment, sampled: &[u32], cut: bool) -> Result<()> {
        let mut ids = std::mem::take(&mut self.forced);
        ids.extend_from_slice(sampled);
        let first = self.conversation.encoded().token_ids.len();
        let text = self.conversation.sampled(&ids)?;
        let turn = AgentTurn { truncated: cut, ..environment.format().parse(&text) };
        self.turns.push(TurnSummary {
            first,
            end: first + ids.len(),
            calls: turn.calls.iter().filter(|c| c.is_ok()).count() as u32,
            errors: 0,
            answered: false,
            truncated: cut,
        });
        self.conversation.set_tool_calls(turn.calls_json());
        self.step = Some(self.episode.step(&turn)?);
        Ok(())
    }

    /// Goes on as far as possible: `wait` bounds how long a tool is waited for.
    pub fn poll(mut self: Box<Self>, environment: &dyn Environment, limits: &Limits, wait: Duration) -> Result<Progress<'a>> {
        let step = match self.step.take() {
            Some(Step::Pending) | None => self.episode.poll(wait),
            ready => ready,
        };
        match step {
            None | Some(Step::Pending) => {
                self.step = Some(Step::Pending);
                Ok(Progress::Pending(self))
            }
            Some(Step::Done(outcome)) => {
                self.ended(outcome);
                Ok(Progress::Done(self))
            }
            Some(Step::Observe(observation)) => {
                let most = limits.turns.unwrap_or(u32::MAX).min(environment.max_turns());
                if self.turns.len() as u32 >= most {
                    self.count(&observation);
                    self.close(StopReason::Turns);
                    return Ok(Progress::Done(self));
                }
                if self.observe(observation, limits.episode_tokens)? {
                    return Ok(Progress::Ready(self));
                }
                self.end_at_length();
                Ok(Progress::Done(self))
            }
        }
    }

    /// Takes an observation in and opens the next turn. False = it leaves no room in the episode: it is counted, but stands in no
    /// record, so that no sequence is longer than the episode may be.
    fn observe(&mut self, observation: Observation, most: usize) -> Result<bool> {
        self.count(&observation);
        let mut next = self.conversation.clone();
        self.observation = next.observe(&observation.messages)?;
        let fits = next.encoded().token_ids.len() < most;
        if fits {
            self.conversation = next;
        }
        Ok(fits)
    }
    fn count(&mut self, observation: &Observation) {
        self.tool_calls += observation.tool_calls;
        self.tool_errors += observation.tool_errors;
        if let Some(turn) = self.turns.last_mut() {
            turn.errors += observation.tool_errors;
        }
    }
    fn ended(&mut self, outcome: Outcome) {
        if let Some(turn) = self.turns.last_mut() {
            turn.answered = outcome.answer.is_some() && outcome.stop == StopReason::Answer;
        }
        self.outcome = Some(outcome);
    }
    /// No token is left for another turn.
    pub fn end_at_length(&mut self) {
        if let Some(turn) = self.turns.last_mut() {
            turn.truncated = true;
        }
        self.close(StopReason::Length);
    }
    fn close(&mut self, stop: StopReason) {
        self.outcome = Some(Outcome {
            answer: None,
            stop,
            status: Status::Ok,
            turns: self.turns.len() as u32,
            tool_calls: self.tool_calls,
            tool_errors: self.tool_errors,
        });
    }

    /// The rollout record of a finished episode.
    pub fn record(self: Box<Self>, state: Option<SequenceState>, problem: &Problem, job: &Job, driver: &Driver<'_>) -> Result<Finished> {
        record::record(*self, state, problem, job, driver)
    }
    /// The conversation so far as messages.
    pub fn messages(&self) -> &[Message] {
        self.conversation.messages()
    }
}
