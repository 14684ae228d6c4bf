//! One episode of a program: its calls wait in a seat until the sampling loop takes them, one at a time.

use crate::conversion::{EpisodeRequest, RequestReader};
use crate::options::OnFailure;
use crate::router::{EpisodeQueue, EpisodeRouter};
use crate::verdict;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::LogLevel;
use trainyard_core::units::format_duration;
use trainyard_core::{Clock as _, Error, Result, SystemClock};
use trainyard_envs::{AgentTurn, CallCounts, Episode, EpisodeStep, Outcome, ParsedTurn, Toolbox, TurnTokens};
use trainyard_model_api::{ModelApiError, PendingRequest};
use trainyard_process::{OneShotProgram, ProgramExit, ProgramLog};
use trainyard_tables::{EpisodeStatus, StopReason};

/// Interval at which a program is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Settings that all episodes of an environment share.
pub struct HarnessSettings {
    pub toolbox: Arc<Toolbox>,
    pub format: String,
    pub describe: bool,
    pub timeout: Duration,
    pub on_failure: OnFailure,
    /// Name of the program in messages.
    pub place: String,
    pub router: Arc<EpisodeRouter>,
    pub log: ProgramLog,
    pub read_answer: fn(&str) -> Option<String>,
}

/// Side whose turn it is.
enum HarnessPhase {
    /// The program.
    Program,
    /// The agent, on this request.
    Agent(Box<(PendingRequest, EpisodeRequest)>),
    Ended,
}

/// An episode in progress.
pub struct ProgramEpisode {
    settings: Arc<HarnessSettings>,
    base: String,
    queue: Arc<EpisodeQueue>,
    /// `None` once the episode is over.
    program: Option<OneShotProgram>,
    clock: SystemClock,
    /// Time at which the program began to work.
    working_since: Duration,
    phase: HarnessPhase,
    tokens: TurnTokens,
    turns: u32,
    /// Number of results in the longest conversation.
    tool_calls: u32,
    counts: CallCounts,
    /// Last text of the agent.
    last_text: String,
    refused: Option<ModelApiError>,
}

impl ProgramEpisode {
    /// Creates an episode whose program has started; `base` is its path.
    pub fn new(setting: Arc<HarnessSettings>, base: String, seat: Arc<EpisodeQueue>, program: OneShotProgram) -> Self {
        let clock = SystemClock::new();
        let since = clock.monotonic();
        Self {
            settings: setting,
            base,
            queue: seat,
            program: Some(program),
            clock,
            working_since: since,
            phase: HarnessPhase::Program,
            tokens: TurnTokens::default(),
            turns: 0,
            tool_calls: 0,
            counts: CallCounts::default(),
            last_text: String::new(),
            refused: None,
        }
    }
    /// Returns the next request that can be answered; the others are refused.
    fn next_request(&mut self) -> Option<EpisodeStep> {
        while let Some(question) = self.queue.next() {
            if question.reply.is_disconnected() {
                self.counts.dropped += 1;
                continue;
            }
            let HarnessSettings { toolbox, format, describe, .. } = &*self.settings;
            match (RequestReader { toolbox, format, describe: *describe }).read(&question.request) {
                Err(refusal) => {
                    self.counts.refused += 1;
                    self.refused = Some(refusal.clone());
                    question.reply.fail(refusal);
                }
                Ok(mut request) => {
                    self.counts.ignored += u32::from(request.ignored);
                    let asked = std::mem::take(&mut request.turn_request);
                    let results = asked.messages.iter().filter(|m| m.role == "tool").count() as u32;
                    self.tool_calls = self.tool_calls.max(results);
                    self.phase = HarnessPhase::Agent(Box::new((question, request)));
                    return Some(EpisodeStep::TurnRequest(asked));
                }
            }
        }
        None
    }
    /// Ends the program, if it still runs, and refuses its remaining requests.
    fn close(&mut self) {
        self.phase = HarnessPhase::Ended;
        self.program = None;
        self.settings.router.remove(&self.base);
        while let Some(question) = self.queue.next() {
            self.counts.dropped += 1;
            question.reply.fail(ModelApiError::new(404, "the episode is over"));
        }
    }
    fn finish(&mut self, stop: StopReason) -> Outcome {
        self.close();
        let Self { turns, tool_calls, counts, .. } = *self;
        Outcome { stop, turns, tool_calls, calls: counts, ..Outcome::default() }
    }
    fn infrastructure_failure(&mut self, timed_out: bool) -> EpisodeStep {
        EpisodeStep::Done(Outcome {
            status: EpisodeStatus::Infrastructure,
            timed_out,
            ..self.finish(StopReason::Error)
        })
    }
    /// Converts the end of a program to a step.
    fn program_exited(&mut self, ended: &ProgramExit) -> Result<EpisodeStep> {
        if self.turns == 0 {
            self.close();
            return Err(self.no_call_error(ended));
        }
        if !ended.success {
            return match self.settings.on_failure {
                OnFailure::End => Ok(EpisodeStep::Done(self.finish(StopReason::End))),
                OnFailure::Skip => Ok(self.infrastructure_failure(false)),
                OnFailure::Fail => {
                    self.close();
                    Err(self
                        .program_error(format!("the program {}", ended.status), ended)
                        .help("mend the program, or set `on_failure`"))
                }
            };
        }
        let verdict = verdict::read(&ended.stdout).map_err(|e| e.at(&self.settings.place))?;
        let (answer, correct, reward) = match verdict {
            Some(verdict) => (verdict.answer(), verdict.correct, verdict.reward),
            None => (Some(self.last_text.clone()), None, None),
        };
        let answer = answer.and_then(|answer| (self.settings.read_answer)(&answer));
        let stop = if answer.is_some() { StopReason::Answer } else { StopReason::End };
        Ok(EpisodeStep::Done(Outcome { answer, correct, reward, ..self.finish(stop) }))
    }
    fn no_call_error(&self, ended: &ProgramExit) -> Error {
        let what = format!("the program {} before the model answered any call", ended.status);
        let error = match &self.refused {
            Some(refusal) => self.program_error(format!("{what}; its call was refused: {}", refusal.message), ended),
            None => self.program_error(what, ended),
        };
        error.help(
            "it finds the model at OPENAI_BASE_URL and ANTHROPIC_BASE_URL, with the key in OPENAI_API_KEY and \
             ANTHROPIC_API_KEY (docs/harness.md)",
        )
    }
    fn program_error(&self, what: String, ended: &ProgramExit) -> Error {
        let words = if ended.stderr.is_empty() { &ended.stdout } else { &ended.stderr };
        let error = Error::data(what).at(&self.settings.place);
        if words.is_empty() { error } else { error.caused_by(&Error::data(format!("its last words:\n{words}"))) }
    }
    fn next_step(&mut self) -> Result<Option<EpisodeStep>> {
        if let Some(step) = self.next_request() {
            return Ok(Some(step));
        }
        if let Some(ended) = self.program.as_mut().and_then(OneShotProgram::poll_exit) {
            return self.program_exited(&ended).map(Some);
        }
        if self.clock.monotonic().saturating_sub(self.working_since) < self.settings.timeout {
            return Ok(None);
        }
        let limit = format_duration(self.settings.timeout);
        let late = format!("{}: the program took longer than {limit} for a call and was killed", self.settings.place);
        (self.settings.log)(LogLevel::Warn, &late);
        Ok(Some(self.infrastructure_failure(true)))
    }
}

impl Episode for ProgramEpisode {
    fn read(&self, text: &str) -> Option<ParsedTurn> {
        match &self.phase {
            HarnessPhase::Agent(open) => Some(open.1.turn(text, Some(&self.tokens))),
            HarnessPhase::Program | HarnessPhase::Ended => None,
        }
    }
    fn record_tokens(&mut self, tokens: TurnTokens) {
        self.tokens = tokens;
    }
    fn step(&mut self, turn: &AgentTurn) -> Result<EpisodeStep> {
        let (question, request) = match std::mem::replace(&mut self.phase, HarnessPhase::Program) {
            HarnessPhase::Agent(open) => *open,
            HarnessPhase::Program => return Err(Error::bug("a turn was taken that no call asked for")),
            HarnessPhase::Ended => {
                self.phase = HarnessPhase::Ended;
                return Err(Error::bug("a turn was taken after the end of the episode"));
            }
        };
        self.turns += 1;
        if turn.truncated {
            return Ok(EpisodeStep::Done(self.finish(StopReason::Length)));
        }
        let tokens = std::mem::take(&mut self.tokens);
        let read = request.turn(&turn.text, Some(&tokens));
        self.last_text.clone_from(&read.message.content);
        self.counts.dropped += u32::from(question.reply.is_disconnected());
        question.reply.finish(request.answer(&read, &tokens, self.turns));
        self.working_since = self.clock.monotonic();
        Ok(EpisodeStep::Pending)
    }
    fn poll(&mut self, wait: Duration) -> Result<Option<EpisodeStep>> {
        if !matches!(self.phase, HarnessPhase::Program) {
            return Ok(None);
        }
        let mut left = wait;
        loop {
            if let Some(step) = self.next_step()? {
                return Ok(Some(step));
            }
            if left.is_zero() {
                return Ok(None);
            }
            self.queue.wait(left.min(POLL_INTERVAL));
            left = left.saturating_sub(POLL_INTERVAL);
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
