//! Plays one episode with a model at an endpoint.

use super::chat_messages;
use super::player::{Player, PlayerJob};
use crate::formats::{AgentTurn, ToolFormat};
use crate::tools::ToolCall;
use crate::{Episode, EpisodeStep, Outcome};
use serde_json::Value;
use std::time::Duration;
use trainyard_chat::{ChatFinishReason, ChatRequest, ChatRequestMessage, ChatResponse, ChatToolCall};
use trainyard_core::{Error, Result};
use trainyard_tables::{EpisodeStatus, Message, Problem, StopReason, Trajectory};

/// A played episode.
#[derive(Debug, Clone)]
pub struct PlayedEpisode {
    /// Record of the episode, without an id. The reward `answer` is 1 if the answer is correct.
    pub trajectory: Trajectory,
    /// Whether the environment accepts the answer.
    pub correct: bool,
    /// Whether a call of the model hit its wall-clock limit; see [`Outcome::timed_out`].
    pub timed_out: bool,
    /// Tokens of the model's responses, as the server counts them.
    pub tokens: u64,
    /// Error of the server, if it ended the episode.
    pub failure: Option<Error>,
}

pub(super) struct ModelEpisode<'a> {
    job: PlayerJob<'a>,
    episode: Box<dyn Episode>,
    format: &'a dyn ToolFormat,
    tools: &'a [Value],
    /// Messages as recorded.
    messages: Vec<Message>,
    /// Messages as the model sees them.
    chat_messages: Vec<ChatRequestMessage>,
    /// Ids of the calls whose results are awaited.
    calls: Vec<String>,
    turns: u32,
    tool_calls: u32,
    tool_errors: u32,
    tokens: u64,
    failure: Option<Error>,
    outcome: Option<Outcome>,
}

impl<'a> ModelEpisode<'a> {
    pub fn start(player: &'a Player<'_>, tools: &'a [Value], job: PlayerJob<'a>) -> Result<Self> {
        let prompt = player.prompt_environment.unwrap_or(player.environment).prompt(job.problem)?;
        Ok(Self {
            episode: player.environment.start(job.problem, job.seed)?,
            format: player.environment.format(),
            tools,
            messages: player.environment.prompt(job.problem)?,
            chat_messages: prompt.iter().map(chat_messages::plain).collect(),
            calls: Vec::new(),
            turns: 0,
            tool_calls: 0,
            tool_errors: 0,
            tokens: 0,
            failure: None,
            outcome: None,
            job,
        })
    }
    /// Returns the next request to the model.
    pub fn next_request(&self) -> ChatRequest {
        let (messages, tools) = (self.chat_messages.clone(), self.tools.to_vec());
        ChatRequest { messages, tools, draw: self.job.draw, ..ChatRequest::default() }
    }
    /// Applies the model's response to the episode. Returns whether a further request follows immediately.
    pub fn receive_answer(&mut self, answer: Result<ChatResponse>) -> Result<bool> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.failure = Some(error);
                let stop = StopReason::Error;
                self.outcome = Some(Outcome { stop, status: EpisodeStatus::Infrastructure, ..self.outcome_counts() });
                return Ok(false);
            }
        };
        self.tokens += answer.tokens.map_or(0, |(_, tokens)| tokens);
        let turn = self.turn(&answer);
        self.turns += 1;
        let calls: Vec<ChatToolCall> =
            answer.calls.into_iter().enumerate().map(|(n, call)| self.with_call_id(n, call)).collect();
        self.calls = calls.iter().map(|call| call.id.clone()).collect();
        self.chat_messages.push(ChatRequestMessage {
            calls,
            ..ChatRequestMessage::new("assistant", answer.refusal.unwrap_or(answer.text))
        });
        self.messages.push(turn.message());
        let step = self.episode.step(&turn)?;
        self.apply_step(step)
    }
    /// Waits for tools, up to `wait`. Returns whether a further request to the model follows.
    pub fn wait(&mut self, wait: Duration) -> Result<bool> {
        if self.outcome.is_some() {
            return Ok(false);
        }
        let step = self.episode.poll(wait)?;
        step.map_or(Ok(false), |step| self.apply_step(step))
    }
    pub fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    /// Returns the response as a turn in the environment's format.
    fn turn(&self, answer: &ChatResponse) -> AgentTurn {
        let mut text = answer.refusal.clone().unwrap_or_else(|| answer.text.trim_end().to_string());
        for call in &answer.calls {
            // Arguments that are not JSON stay text, which the environment rejects with an error that the model sees.
            let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::from(&*call.arguments));
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&self.format.render(&ToolCall { name: call.name.clone(), arguments }));
        }
        AgentTurn { truncated: answer.finish == ChatFinishReason::Length, ..self.format.parse(&text) }
    }
    /// Returns the call with an id, because some servers send none.
    fn with_call_id(&self, number: usize, call: ChatToolCall) -> ChatToolCall {
        match call.id.is_empty() {
            true => ChatToolCall { id: format!("call_{}_{number}", self.turns), ..call },
            false => call,
        }
    }
    fn apply_step(&mut self, step: EpisodeStep) -> Result<bool> {
        match step {
            EpisodeStep::Pending => Ok(false),
            EpisodeStep::TurnRequest(_) => Err(Error::bug("an environment with a prompt requested a turn")),
            EpisodeStep::Observe(observation) => {
                self.tool_calls += observation.tool_calls;
                self.tool_errors += observation.tool_errors;
                let mut awaited = std::mem::take(&mut self.calls).into_iter();
                for message in &observation.messages {
                    let call = (message.role == "tool").then(|| awaited.next()).flatten();
                    self.chat_messages.push(match call {
                        Some(id) => chat_messages::result(&message.content, Some(&id)),
                        None => chat_messages::plain(message),
                    });
                }
                // A call without a result would make the rest of the conversation unreadable to the server.
                self.chat_messages.extend(awaited.map(|id| chat_messages::result("", Some(&id))));
                self.messages.extend(observation.messages);
                Ok(true)
            }
            EpisodeStep::Done(outcome) => {
                self.outcome = Some(outcome);
                Ok(false)
            }
        }
    }
    fn outcome_counts(&self) -> Outcome {
        let Self { turns, tool_calls, tool_errors, .. } = *self;
        Outcome { turns, tool_calls, tool_errors, ..Outcome::default() }
    }

    pub fn finish(self, player: &Player<'_>) -> Result<PlayedEpisode> {
        let outcome = self.outcome.ok_or_else(|| Error::bug("an unfinished episode was recorded"))?;
        let problem: &Problem = self.job.problem;
        let check = match outcome.status {
            EpisodeStatus::Ok => Some(player.environment.check_outcome(problem, &outcome)?),
            EpisodeStatus::Infrastructure => None,
        };
        let correct = check.as_ref().is_some_and(|check| check.correct);
        let reward = f64::from(u8::from(correct));
        let trajectory = Trajectory {
            problem_id: problem.id.clone(),
            sample: u32::try_from(self.job.draw).unwrap_or(u32::MAX),
            messages: self.messages,
            rewards: [("answer".to_string(), reward)].into(),
            reward,
            stop_reason: outcome.stop,
            status: outcome.status,
            turns: self.turns,
            tool_calls: outcome.tool_calls,
            tool_errors: outcome.tool_errors,
            answer: check.as_ref().and_then(|check| check.extracted.clone()).or(outcome.answer),
            answer_check: check,
            level: problem.level,
            environment: problem.environment.clone(),
            seed: self.job.seed,
            parents: vec![problem.id.clone()],
            ..Trajectory::default()
        };
        let (timed_out, tokens, failure) = (outcome.timed_out, self.tokens, self.failure);
        Ok(PlayedEpisode { trajectory, correct, timed_out, tokens, failure })
    }
}
