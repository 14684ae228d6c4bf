//! One episode of a program: its calls wait in a seat until the sampling loop takes them, one at a time.

use crate::options::OnFailure;
use crate::switchboard::{Seat, Switchboard};
use crate::verdict;
use crate::view::{Reader, Request};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::LogLevel;
use trainyard_core::units::format_duration;
use trainyard_core::{Clock as _, Error, Result, SystemClock};
use trainyard_envs::{AgentTurn, CallCounts, Episode, Outcome, Read, Step, Toolbox, TurnTokens};
use trainyard_model_api::{Question, Refusal};
use trainyard_process::{Ended, Log, Solo};
use trainyard_tables::{Status, StopReason};

/// Interval at which a program is polled.
const LOOK: Duration = Duration::from_millis(5);

/// Settings that all episodes of an environment share.
pub struct Setting {
    pub toolbox: Arc<Toolbox>,
    pub format: String,
    pub describe: bool,
    pub timeout: Duration,
    pub on_failure: OnFailure,
    /// Name of the program in messages.
    pub place: String,
    pub switchboard: Arc<Switchboard>,
    pub log: Log,
    pub read_answer: fn(&str) -> Option<String>,
}

/// Side whose turn it is.
enum Phase {
    /// The program.
    Program,
    /// The agent, on this request.
    Agent(Box<(Question, Request)>),
    Over,
}

/// An episode in progress.
pub struct ProgramEpisode {
    setting: Arc<Setting>,
    base: String,
    seat: Arc<Seat>,
    /// `None` once the episode is over.
    program: Option<Solo>,
    clock: SystemClock,
    /// Time at which the program began to work.
    since: Duration,
    phase: Phase,
    tokens: TurnTokens,
    turns: u32,
    /// Number of results in the longest conversation.
    tool_calls: u32,
    counts: CallCounts,
    /// Last text of the agent.
    said: String,
    refused: Option<Refusal>,
}

impl ProgramEpisode {
    /// Creates an episode whose program has started; `base` is its path.
    pub fn new(setting: Arc<Setting>, base: String, seat: Arc<Seat>, program: Solo) -> Self {
        let clock = SystemClock::new();
        let since = clock.monotonic();
        Self {
            setting,
            base,
            seat,
            program: Some(program),
            clock,
            since,
            phase: Phase::Program,
            tokens: TurnTokens::default(),
            turns: 0,
            tool_calls: 0,
            counts: CallCounts::default(),
            said: String::new(),
            refused: None,
        }
    }
    /// Returns the next request that can be answered; the others are refused.
    fn take(&mut self) -> Option<Step> {
        while let Some(question) = self.seat.next() {
            if question.reply.is_gone() {
                self.counts.dropped += 1;
                continue;
            }
            let Setting { toolbox, format, describe, .. } = &*self.setting;
            match (Reader { toolbox, format, describe: *describe }).read(&question.asked) {
                Err(refusal) => {
                    self.counts.refused += 1;
                    self.refused = Some(refusal.clone());
                    question.reply.refuse(refusal);
                }
                Ok(mut request) => {
                    self.counts.ignored += u32::from(request.ignored);
                    let asked = std::mem::take(&mut request.asked);
                    let results = asked.messages.iter().filter(|m| m.role == "tool").count() as u32;
                    self.tool_calls = self.tool_calls.max(results);
                    self.phase = Phase::Agent(Box::new((question, request)));
                    return Some(Step::Asked(asked));
                }
            }
        }
        None
    }
    /// Ends the program, if it still runs, and refuses its remaining requests.
    fn close(&mut self) {
        self.phase = Phase::Over;
        self.program = None;
        self.setting.switchboard.leave(&self.base);
        while let Some(question) = self.seat.next() {
            self.counts.dropped += 1;
            question.reply.refuse(Refusal::new(404, "the episode is over"));
        }
    }
    fn over(&mut self, stop: StopReason) -> Outcome {
        self.close();
        let Self { turns, tool_calls, counts, .. } = *self;
        Outcome { stop, turns, tool_calls, calls: counts, ..Outcome::default() }
    }
    fn broken(&mut self, timed_out: bool) -> Step {
        Step::Done(Outcome { status: Status::Infrastructure, timed_out, ..self.over(StopReason::Error) })
    }
    /// Converts the end of a program to a step.
    fn ended(&mut self, ended: &Ended) -> Result<Step> {
        if self.turns == 0 {
            self.close();
            return Err(self.without_a_call(ended));
        }
        if !ended.well {
            return match self.setting.on_failure {
                OnFailure::End => Ok(Step::Done(self.over(StopReason::End))),
                OnFailure::Skip => Ok(self.broken(false)),
                OnFailure::Fail => {
                    self.close();
                    Err(self
                        .wrong(format!("the program {}", ended.how), ended)
                        .help("mend the program, or set `on_failure`"))
                }
            };
        }
        let verdict = verdict::read(&ended.said).map_err(|e| e.at(&self.setting.place))?;
        let (answer, correct, reward) = match verdict {
            Some(verdict) => (verdict.answer(), verdict.correct, verdict.reward),
            None => (Some(self.said.clone()), None, None),
        };
        let answer = answer.and_then(|answer| (self.setting.read_answer)(&answer));
        let stop = if answer.is_some() { StopReason::Answer } else { StopReason::End };
        Ok(Step::Done(Outcome { answer, correct, reward, ..self.over(stop) }))
    }
    fn without_a_call(&self, ended: &Ended) -> Error {
        let what = format!("the program {} before the model answered any call", ended.how);
        let error = match &self.refused {
            Some(refusal) => self.wrong(format!("{what}; its call was refused: {}", refusal.message), ended),
            None => self.wrong(what, ended),
        };
        error.help(
            "it finds the model at OPENAI_BASE_URL and ANTHROPIC_BASE_URL, with the key in OPENAI_API_KEY and \
             ANTHROPIC_API_KEY (docs/harness.md)",
        )
    }
    fn wrong(&self, what: String, ended: &Ended) -> Error {
        let words = if ended.errors.is_empty() { &ended.said } else { &ended.errors };
        let error = Error::data(what).at(&self.setting.place);
        if words.is_empty() { error } else { error.caused_by(&Error::data(format!("its last words:\n{words}"))) }
    }
    fn look(&mut self) -> Result<Option<Step>> {
        if let Some(step) = self.take() {
            return Ok(Some(step));
        }
        if let Some(ended) = self.program.as_mut().and_then(Solo::ended) {
            return self.ended(&ended).map(Some);
        }
        if self.clock.monotonic().saturating_sub(self.since) < self.setting.timeout {
            return Ok(None);
        }
        let limit = format_duration(self.setting.timeout);
        let late = format!("{}: the program took longer than {limit} for a call and was killed", self.setting.place);
        (self.setting.log)(LogLevel::Warn, &late);
        Ok(Some(self.broken(true)))
    }
}

impl Episode for ProgramEpisode {
    fn read(&self, text: &str) -> Option<Read> {
        match &self.phase {
            Phase::Agent(open) => Some(open.1.turn(text, Some(&self.tokens))),
            Phase::Program | Phase::Over => None,
        }
    }
    fn hear(&mut self, tokens: TurnTokens) {
        self.tokens = tokens;
    }
    fn step(&mut self, turn: &AgentTurn) -> Result<Step> {
        let (question, request) = match std::mem::replace(&mut self.phase, Phase::Program) {
            Phase::Agent(open) => *open,
            Phase::Program => return Err(Error::bug("a turn was taken that no call asked for")),
            Phase::Over => {
                self.phase = Phase::Over;
                return Err(Error::bug("a turn was taken after the end of the episode"));
            }
        };
        self.turns += 1;
        if turn.truncated {
            return Ok(Step::Done(self.over(StopReason::Length)));
        }
        let tokens = std::mem::take(&mut self.tokens);
        let read = request.turn(&turn.text, Some(&tokens));
        self.said.clone_from(&read.message.content);
        self.counts.dropped += u32::from(question.reply.is_gone());
        question.reply.done(request.answer(&read, &tokens, self.turns));
        self.since = self.clock.monotonic();
        Ok(Step::Pending)
    }
    fn poll(&mut self, wait: Duration) -> Result<Option<Step>> {
        if !matches!(self.phase, Phase::Program) {
            return Ok(None);
        }
        let mut left = wait;
        loop {
            if let Some(step) = self.look()? {
                return Ok(Some(step));
            }
            if left.is_zero() {
                return Ok(None);
            }
            self.seat.wait(left.min(LOOK));
            left = left.saturating_sub(LOOK);
        }
    }
    fn fork(&self) -> Result<Box<dyn Episode>> {
        Err(Error::invalid("an episode of a program cannot be forked")
            .help("use a strategy that samples whole episodes, such as `independent`"))
    }
}

impl Drop for ProgramEpisode {
    fn drop(&mut self) {
        self.close();
    }
}
