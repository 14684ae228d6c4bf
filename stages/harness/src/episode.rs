//! Runs one episode of a program. The requests of the program wait in a queue until the sampling loop takes them one at
//! a time.

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
use trainyard_tables::{EpisodeStatus, StopReason, TurnFormError};

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

/// Current phase of an episode.
enum HarnessPhase {
    /// The program works; the sampling loop waits for its next request.
    Program,
    /// The agent samples a turn for this request.
    Agent(Box<(PendingRequest, EpisodeRequest)>),
    Ended,
}

/// An episode in progress.
pub struct ProgramEpisode {
    settings: Arc<HarnessSettings>,
    base: String,
    queue: Arc<EpisodeQueue>,
    /// `None` once the episode has ended.
    program: Option<OneShotProgram>,
    clock: SystemClock,
    /// Time at which the program began to work.
    working_since: Duration,
    phase: HarnessPhase,
    tokens: TurnTokens,
    turns: u32,
    /// Number of tool results in the longest conversation.
    tool_calls: u32,
    counts: CallCounts,
    /// Latest text of the agent.
    last_text: String,
}

impl ProgramEpisode {
    /// Creates an episode of a program that has started; `base` is the path of the episode on the server.
    pub fn new(
        settings: Arc<HarnessSettings>,
        base: String,
        queue: Arc<EpisodeQueue>,
        program: OneShotProgram,
    ) -> Self {
        let clock = SystemClock::new();
        let started = clock.monotonic();
        Self {
            settings,
            base,
            queue,
            program: Some(program),
            clock,
            working_since: started,
            phase: HarnessPhase::Program,
            tokens: TurnTokens::default(),
            turns: 0,
            tool_calls: 0,
            counts: CallCounts::default(),
            last_text: String::new(),
        }
    }
    /// Takes the next request that can be sampled, and rejects unsupported ones. Returns `None` if no request waits.
    fn next_request(&mut self) -> Option<EpisodeStep> {
        while let Some(pending) = self.queue.next() {
            if pending.reply.is_disconnected() {
                self.counts.dropped += 1;
                continue;
            }
            let HarnessSettings { toolbox, format, describe, .. } = &*self.settings;
            match (RequestReader { toolbox, format, describe: *describe }).read(&pending.request) {
                Err(refusal) => self.refuse_request(pending, refusal),
                Ok(mut request) => {
                    self.counts.ignored += u32::from(request.ignored);
                    let turn_request = std::mem::take(&mut request.turn_request);
                    let results = turn_request.messages.iter().filter(|m| m.role == "tool").count() as u32;
                    self.tool_calls = self.tool_calls.max(results);
                    self.phase = HarnessPhase::Agent(Box::new((pending, request)));
                    return Some(EpisodeStep::TurnRequest(turn_request));
                }
            }
        }
        None
    }
    /// Takes the request that the agent responds to; the program works again. Errors: bug, without such a request.
    fn take_request(&mut self) -> Result<(PendingRequest, EpisodeRequest)> {
        match std::mem::replace(&mut self.phase, HarnessPhase::Program) {
            HarnessPhase::Agent(active) => Ok(*active),
            HarnessPhase::Program => Err(Error::bug("a turn was taken without a request")),
            HarnessPhase::Ended => {
                self.phase = HarnessPhase::Ended;
                Err(Error::bug("a turn was taken after the end of the episode"))
            }
        }
    }
    fn refuse_request(&self, pending: PendingRequest, refusal: ModelApiError) {
        self.queue.record_refusal(&refusal);
        pending.reply.fail(refusal);
    }
    /// Kills the program if it still runs, and rejects its remaining requests.
    fn close(&mut self) {
        self.phase = HarnessPhase::Ended;
        self.program = None;
        self.settings.router.remove(&self.base);
        while let Some(pending) = self.queue.next() {
            self.counts.dropped += 1;
            pending.reply.fail(ModelApiError::new(404, "the episode has ended"));
        }
    }
    fn finish(&mut self, stop: StopReason) -> Outcome {
        self.close();
        self.counts.refused = self.queue.refusals().count;
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
    /// Converts the exit of the program to the last step of the episode. Errors: the program made no request, or it
    /// failed and `on_failure` is `fail`.
    fn program_exited(&mut self, exit: &ProgramExit) -> Result<EpisodeStep> {
        if self.turns == 0 {
            self.close();
            return Err(self.no_call_error(exit));
        }
        if !exit.success {
            self.log_refusal(exit);
            return match self.settings.on_failure {
                OnFailure::End => Ok(EpisodeStep::Done(self.finish(StopReason::End))),
                OnFailure::Skip => Ok(self.infrastructure_failure(false)),
                OnFailure::Fail => {
                    self.close();
                    let help = self.refusal_help().unwrap_or("fix the program, or set `on_failure`");
                    Err(self.program_error(self.failure(exit, ""), exit).help(help))
                }
            };
        }
        let verdict = verdict::read(&exit.stdout).map_err(|e| e.at(&self.settings.place))?;
        let (answer, correct, reward) = match verdict {
            Some(verdict) => (verdict.answer(), verdict.correct, verdict.reward),
            None => (Some(self.last_text.clone()), None, None),
        };
        let answer = answer.and_then(|answer| (self.settings.read_answer)(&answer));
        let stop = if answer.is_some() { StopReason::Answer } else { StopReason::End };
        Ok(EpisodeStep::Done(Outcome { answer, correct, reward, ..self.finish(stop) }))
    }
    fn no_call_error(&self, exit: &ProgramExit) -> Error {
        let message = self.failure(exit, " before the first response of the model");
        self.program_error(message, exit).help(self.refusal_help().unwrap_or(
            "send requests to OPENAI_BASE_URL or ANTHROPIC_BASE_URL, with the key in OPENAI_API_KEY or \
             ANTHROPIC_API_KEY (docs/harness.md)",
        ))
    }
    /// Describes the failure of a program, with the request whose refusal may be its cause. `when` follows the status.
    fn failure(&self, exit: &ProgramExit, when: &str) -> String {
        let (message, refusals) = (format!("the program {}{when}", exit.status), self.queue.refusals());
        match (refusals.count, refusals.last) {
            (_, None) => message,
            (1, Some(refusal)) => format!("{message}; its request was refused: {}", refusal.message),
            (count, Some(refusal)) => {
                format!("{message}; {count} of its requests were refused, the last one: {}", refusal.message)
            }
        }
    }
    /// Returns the advice for a program whose requests were refused.
    fn refusal_help(&self) -> Option<&'static str> {
        let help = "change the program so that it does not send such a request; docs/harness.md lists what is refused";
        self.queue.refusals().last.map(|_| help)
    }
    /// Logs the refused request that may be the cause of a failure which only ends the episode.
    fn log_refusal(&self, exit: &ProgramExit) {
        if self.refusal_help().is_some() {
            (self.settings.log)(LogLevel::Warn, &format!("{}: {}", self.settings.place, self.failure(exit, "")));
        }
    }
    fn program_error(&self, message: String, exit: &ProgramExit) -> Error {
        let output = if exit.stderr.is_empty() { &exit.stdout } else { &exit.stderr };
        let error = Error::data(message).at(&self.settings.place);
        if output.is_empty() {
            error
        } else {
            error.caused_by(&Error::data(format!("last lines of its output:\n{output}")))
        }
    }
    fn next_step(&mut self) -> Result<Option<EpisodeStep>> {
        if let Some(step) = self.next_request() {
            return Ok(Some(step));
        }
        if let Some(exit) = self.program.as_mut().and_then(OneShotProgram::poll_exit) {
            return self.program_exited(&exit).map(Some);
        }
        if self.clock.monotonic().saturating_sub(self.working_since) < self.settings.timeout {
            return Ok(None);
        }
        let limit = format_duration(self.settings.timeout);
        let message =
            format!("{}: the program took longer than {limit} for a request and was killed", self.settings.place);
        (self.settings.log)(LogLevel::Warn, &message);
        Ok(Some(self.infrastructure_failure(true)))
    }
}

impl Episode for ProgramEpisode {
    fn read(&self, text: &str) -> Option<ParsedTurn> {
        match &self.phase {
            HarnessPhase::Agent(active) => Some(active.1.turn(text, Some(&self.tokens))),
            HarnessPhase::Program | HarnessPhase::Ended => None,
        }
    }
    fn record_tokens(&mut self, tokens: TurnTokens) {
        self.tokens = tokens;
    }
    fn refuse(&mut self, refusal: TurnFormError) -> Result<EpisodeStep> {
        let (pending, _) = self.take_request()?;
        self.refuse_request(pending, ModelApiError::from(refusal).code("unsupported_parameter"));
        self.working_since = self.clock.monotonic();
        Ok(EpisodeStep::Pending)
    }
    fn step(&mut self, turn: &AgentTurn) -> Result<EpisodeStep> {
        let (pending, request) = self.take_request()?;
        self.turns += 1;
        if turn.truncated {
            return Ok(EpisodeStep::Done(self.finish(StopReason::Length)));
        }
        let tokens = std::mem::take(&mut self.tokens);
        let read = request.turn(&turn.text, Some(&tokens));
        self.last_text.clone_from(&read.message.content);
        self.counts.dropped += u32::from(pending.reply.is_disconnected());
        pending.reply.finish(request.answer(&read, &tokens, self.turns));
        self.working_since = self.clock.monotonic();
        Ok(EpisodeStep::Pending)
    }
    fn poll(&mut self, wait: Duration) -> Result<Option<EpisodeStep>> {
        if !matches!(self.phase, HarnessPhase::Program) {
            return Ok(None);
        }
        let mut remaining = wait;
        loop {
            if let Some(step) = self.next_step()? {
                return Ok(Some(step));
            }
            if remaining.is_zero() {
                return Ok(None);
            }
            self.queue.wait(remaining.min(POLL_INTERVAL));
            remaining = remaining.saturating_sub(POLL_INTERVAL);
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
