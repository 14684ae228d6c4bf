//! Defines one episode in flight: its conversation, its environment and its sequence in the sampler.
//!
//! The driver decides which episode decodes next. All state of an episode is in [`LiveEpisode`], so a fork is a copy of
//! this struct.

use super::draw::{draw_key, of_context};
use super::job::{EpisodeJob, EpisodeLimits, EpisodeStart};
use super::program_segments::ProgramSegments;
use super::segment::ConversationSegment;
use crate::native;
use std::time::Duration;
use trainyard_core::{Chance, Error, Result};
use trainyard_envs::{AgentTurn, Environment, Episode, EpisodeStep, Observation, Outcome};
use trainyard_learn::{EpisodePrefix, LiveSequence, TurnSummary};
use trainyard_lm::folder::ModelFolder;
use trainyard_lm::generate::{DrawKey, SequenceId, SequenceState};
use trainyard_lm::template::TokenizedConversation;
use trainyard_tables::{EpisodeStatus, Message, Problem, StopReason};

/// Polling interval of a tool while a prefix is replayed.
const REPLAY_WAIT: Duration = Duration::from_millis(50);

/// Next action of an episode.
pub enum EpisodePoll<'a> {
    /// The next turn can be decoded.
    Ready(Box<LiveEpisode<'a>>),
    /// Tools are running.
    Pending(Box<LiveEpisode<'a>>),
    /// The episode has ended and can be recorded.
    Done(Box<LiveEpisode<'a>>),
}

/// Episode that has not ended.
pub struct LiveEpisode<'a> {
    pub(super) job: EpisodeJob,
    pub(super) order: usize,
    pub(super) problem: &'a Problem,
    /// Current segment.
    pub(super) segment: ConversationSegment<'a>,
    /// Other segments, where a program keeps the conversation.
    pub(super) program: Option<Box<ProgramSegments<'a>>>,
    pub(super) episode: Box<dyn Episode>,
    /// Sequence of the current context; `None` before the first turn is decoded.
    pub(super) sequence: Option<SequenceId>,
    /// Tokens to append before the next turn is decoded.
    pub(super) observation: Vec<u32>,
    /// Given (not sampled) first tokens of the current turn.
    forced: Vec<u32>,
    /// Whether the sampler reached a limit in the current turn.
    pub(super) truncated: bool,
    pub(super) outcome: Option<Outcome>,
    /// Unprocessed response of `episode` to the last turn; `None` if the episode must be polled.
    step: Option<EpisodeStep>,
    pub(super) tool_calls: u32,
    pub(super) tool_errors: u32,
    pub(super) seed: u64,
    /// End of the agent's tokens that come from a demonstration.
    pub(super) given: usize,
    pub(super) origin: Option<ForkOrigin>,
}

/// Waiting episodes, boxed because they are large and move from list to list.
pub(super) type WaitingEpisodes<'a> = Vec<Box<LiveEpisode<'a>>>;

/// Origin of a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ForkOrigin {
    pub sample: u32,
    /// First token after the fork.
    pub at: usize,
    /// Number of forks along the ancestry, including this one.
    forks: u32,
    /// Turn of the fork.
    turn: u32,
}

impl<'a> LiveEpisode<'a> {
    /// Opens the first turn, or replays a prefix up to its last, open turn.
    pub fn start(
        model: &'a ModelFolder,
        environment: &dyn Environment,
        problem: &'a Problem,
        job: EpisodeJob,
        order: usize,
        seed: u64,
    ) -> Result<EpisodePoll<'a>> {
        native::expect_tools(model, environment)?;
        let mut conversation = TokenizedConversation::new(&model.chat, None);
        let program = if environment.prompts() {
            conversation.extend(&scaffolded(environment.prompt(problem)?, &job.scaffold))?;
            conversation.open_first_turn()?;
            None
        } else {
            Some(Box::new(ProgramSegments::new(&model.chat, &job)?))
        };
        let is_program = program.is_some();
        let episode = environment.start(problem, seed)?;
        let start = job.start.clone();
        let mut live = Box::new(Self {
            job,
            order,
            problem,
            segment: ConversationSegment::new(conversation),
            program,
            episode,
            sequence: None,
            observation: Vec::new(),
            forced: Vec::new(),
            truncated: false,
            outcome: None,
            step: None,
            tool_calls: 0,
            tool_errors: 0,
            seed,
            given: 0,
            origin: None,
        });
        if let EpisodeStart::Prefix(EpisodePrefix { turns, partial, .. }) = start {
            for turn in &turns {
                if !live.replay(environment, turn)? {
                    return Ok(EpisodePoll::Done(live));
                }
            }
            live.forced = partial;
            live.given = live.first();
        }
        Ok(if is_program { EpisodePoll::Pending(live) } else { EpisodePoll::Ready(live) })
    }

    /// Copies the episode so that it continues from token `at` of the turn that was just sampled. The copy has no
    /// sequence yet.
    pub fn fork(&self, at: usize, sample: u32, order: usize) -> Result<Box<Self>> {
        let forks = self.origin.map_or(0, |o| o.forks) + 1;
        Ok(Box::new(Self {
            job: EpisodeJob { sample, ..self.job.clone() },
            order,
            problem: self.problem,
            segment: self.segment.clone(),
            program: None,
            episode: self.episode.fork()?,
            sequence: None,
            observation: Vec::new(),
            forced: self.forced.clone(),
            truncated: false,
            outcome: None,
            step: None,
            tool_calls: self.tool_calls,
            tool_errors: self.tool_errors,
            seed: self.seed,
            given: self.given,
            origin: Some(ForkOrigin { sample: self.job.sample, at, forks, turn: self.segment.turns.len() as u32 }),
        }))
    }
    /// Returns the key of the current context's draws.
    pub fn draw_key(&self, chance: &Chance) -> DrawKey {
        let earlier =
            self.segment.conversation.encoded().restarts.len() + self.program.as_ref().map_or(0, |k| k.switches);
        of_context(draw_key(chance, self.problem, &self.job), earlier)
    }
    /// Returns the index of the first token of the open turn.
    pub fn first(&self) -> usize {
        self.segment.conversation.encoded().token_ids.len() + self.forced.len()
    }
    /// Returns the strategy's view of the episode; the last turn is still open.
    pub fn view(&self, state: &SequenceState) -> LiveSequence {
        let first = self.first();
        let of = |(first, end): (usize, usize)| {
            let past = self.segment.past.iter().rev().find(|(base, _)| first < self.segment.base && *base <= first);
            let (base, state) = past.map_or((self.segment.base, state), |(base, state)| (*base, state));
            // Samplers without entropies leave the lists empty.
            let known = state.entropies.get(first - base..end - base).unwrap_or_default();
            known.iter().map(|h| f64::from(*h)).collect::<Vec<f64>>()
        };
        let end = self.segment.base + state.token_ids.len();
        let ranges = self.segment.turns.iter().map(|t| (t.first, t.end)).chain([(first, end)]);
        let turn = self.segment.turns.len() as u32;
        LiveSequence {
            group: self.job.group as usize,
            sample: self.job.sample,
            turn,
            first,
            entropies: ranges.map(of).collect(),
            tool_calls: self.tool_calls,
            forks: self.origin.map_or(0, |o| o.forks),
            since_fork: self.origin.map(|o| turn - o.turn),
        }
    }

    /// Replays a turn of an earlier episode and waits for its observation. Returns false if the infrastructure ended
    /// the episode.
    fn replay(&mut self, environment: &dyn Environment, turn: &[u32]) -> Result<bool> {
        self.turn_ended(environment, turn)?;
        loop {
            match self.step.take() {
                Some(EpisodeStep::Observe(observation)) => {
                    self.observe(observation, usize::MAX)?;
                    self.observation.clear();
                    return Ok(true);
                }
                Some(EpisodeStep::Done(outcome)) if outcome.status == EpisodeStatus::Infrastructure => {
                    self.set_outcome(outcome);
                    return Ok(false);
                }
                Some(EpisodeStep::TurnRequest(_)) => {
                    return Err(Error::bug("given turns are replayed where a program keeps the conversation"));
                }
                Some(EpisodeStep::Done(_)) => {
                    return Err(Error::data("the given turns continue after the end of the replayed episode")
                        .help("use episodes that were played with this environment's tools, format and limits"));
                }
                Some(EpisodeStep::Pending) | None => self.step = self.episode.poll(REPLAY_WAIT)?,
            }
        }
    }

    /// Returns the number of tokens that the next turn may sample; 0 = the episode is full.
    pub fn room(&self, limits: &EpisodeLimits) -> usize {
        let used = self.request_tokens().len();
        let room = limits.turn_tokens.saturating_sub(self.forced.len()).min(limits.episode_tokens.saturating_sub(used));
        room.min(self.program.as_ref().and_then(|program| program.max_tokens).unwrap_or(usize::MAX))
    }
    /// Returns the tokens that the sampler continues.
    pub fn request_tokens(&self) -> Vec<u32> {
        let mut tokens = self.segment.conversation.context().to_vec();
        tokens.extend_from_slice(&self.forced);
        tokens
    }

    /// Passes a finished turn to the environment.
    pub fn turn_ended(&mut self, environment: &dyn Environment, sampled: &[u32]) -> Result<()> {
        let turn = self.take_turn(environment, sampled)?;
        self.step = Some(self.episode.step(&turn)?);
        Ok(())
    }
    /// Ends the episode with this turn, by the strategy's decision.
    pub fn stopped(&mut self, environment: &dyn Environment, sampled: &[u32]) -> Result<()> {
        self.take_turn(environment, sampled)?;
        self.close(StopReason::End);
        Ok(())
    }
    /// Appends a turn to the conversation.
    fn take_turn(&mut self, environment: &dyn Environment, sampled: &[u32]) -> Result<AgentTurn> {
        let mut ids = std::mem::take(&mut self.forced);
        ids.extend_from_slice(sampled);
        let first = self.segment.conversation.encoded().token_ids.len();
        let text = self.segment.conversation.push_sampled(&ids)?;
        let mut truncated = std::mem::take(&mut self.truncated);
        let turn = match &self.program {
            None => environment.format().parse(&text),
            Some(program) => {
                // A turn that ends at the program's own limit does not count as truncated.
                truncated &= program.max_tokens.is_none_or(|limit| ids.len() < limit);
                let read = self.episode.read(&text);
                let read = read.ok_or_else(|| Error::bug("an episode of a program does not read its turns"))?;
                self.segment.known.push(read.message);
                read.turn
            }
        };
        let turn = AgentTurn { truncated, ..turn };
        self.segment.turns.push(TurnSummary {
            first,
            end: first + ids.len(),
            calls: turn.calls.iter().filter(|c| c.is_ok()).count() as u32,
            errors: 0,
            answered: false,
            spoken: false,
            truncated,
        });
        self.segment.conversation.set_tool_calls(turn.calls_json());
        Ok(turn)
    }

    /// Advances the episode as far as possible without decoding; `wait` limits the wait for a tool.
    pub fn poll(
        mut self: Box<Self>,
        environment: &dyn Environment,
        limits: &EpisodeLimits,
        wait: Duration,
    ) -> Result<EpisodePoll<'a>> {
        let step = match self.step.take() {
            Some(EpisodeStep::Pending) | None => self.episode.poll(wait)?,
            ready => ready,
        };
        match step {
            None | Some(EpisodeStep::Pending) => {
                self.step = Some(EpisodeStep::Pending);
                Ok(EpisodePoll::Pending(self))
            }
            Some(EpisodeStep::Done(outcome)) => {
                self.set_outcome(outcome);
                Ok(EpisodePoll::Done(self))
            }
            Some(EpisodeStep::Observe(observation)) => {
                if self.turns_exhausted(environment) {
                    self.count(&observation);
                    self.close(StopReason::Turns);
                    return Ok(EpisodePoll::Done(self));
                }
                if self.observe(observation, limits.episode_tokens)? {
                    return Ok(EpisodePoll::Ready(self));
                }
                self.end_at_length();
                Ok(EpisodePoll::Done(self))
            }
            Some(EpisodeStep::TurnRequest(request)) => {
                if self.turns_exhausted(environment) {
                    self.close(StopReason::Turns);
                    return Ok(EpisodePoll::Done(self));
                }
                if let Err(refusal) = self.check_form(request.form.as_ref()) {
                    self.step = Some(self.episode.refuse(refusal)?);
                    return Ok(EpisodePoll::Pending(self));
                }
                if self.continue_request(request, limits.episode_tokens)? {
                    return Ok(EpisodePoll::Ready(self));
                }
                self.end_at_length();
                Ok(EpisodePoll::Done(self))
            }
        }
    }

    /// Returns whether all turns are used up.
    fn turns_exhausted(&self, environment: &dyn Environment) -> bool {
        self.turns() >= self.job.max_turns.unwrap_or(u32::MAX).min(environment.max_turns())
    }
    /// Counts the turns taken.
    pub fn turns(&self) -> u32 {
        let other_turns = self.program.as_ref().map_or(0, |program| program.turns());
        (self.segment.turns.len() + other_turns) as u32
    }

    /// Appends an observation and opens the next turn. Returns false if there is no room: the calls of the observation
    /// are counted, but its tokens are left out, so no sequence exceeds the episode's limit.
    fn observe(&mut self, observation: Observation, limit: usize) -> Result<bool> {
        self.count(&observation);
        if let Some(turn) = self.segment.turns.last_mut() {
            turn.spoken = observation.messages.iter().any(|m| m.role == "user");
        }
        let mut next = self.segment.conversation.clone();
        self.observation = next.observe(&observation.messages)?.unwrap_or_default();
        let fits = next.context().len() < limit;
        if fits {
            self.segment.conversation = next;
        }
        Ok(fits)
    }
    fn count(&mut self, observation: &Observation) {
        self.tool_calls += observation.tool_calls;
        self.tool_errors += observation.tool_errors;
        if let Some(turn) = self.segment.turns.last_mut() {
            turn.errors += observation.tool_errors;
        }
    }
    fn set_outcome(&mut self, outcome: Outcome) {
        if let Some(turn) = self.segment.turns.last_mut() {
            turn.answered = outcome.answer.is_some() && outcome.stop == StopReason::Answer;
        }
        self.outcome = Some(outcome);
    }
    /// Ends the episode because no token is left for another turn.
    pub fn end_at_length(&mut self) {
        if let Some(turn) = self.segment.turns.last_mut() {
            turn.truncated = true;
        }
        self.close(StopReason::Length);
    }
    fn close(&mut self, stop: StopReason) {
        self.outcome = Some(Outcome {
            answer: None,
            stop,
            status: EpisodeStatus::Ok,
            turns: self.turns(),
            tool_calls: self.tool_calls,
            tool_errors: self.tool_errors,
            ..Outcome::default()
        });
    }
}

/// Puts a text before the problem in the opening messages.
fn scaffolded(mut prompt: Vec<Message>, scaffold: &str) -> Vec<Message> {
    if let Some(problem) = prompt.iter_mut().rev().find(|m| m.role == "user").filter(|_| !scaffold.is_empty()) {
        problem.content = format!("{scaffold}\n{}", problem.content);
    }
    prompt
}
