//! Implements one episode of a program, which receives the calls and turns and whose replies define the continuation.

use crate::environments::{AfterTurn, EpisodeState};
use crate::programs::ExceptionPolicy;
use crate::tools::pending_result::PendingResultSource;
use crate::tools::process::result::{CallResultSource, result};
use crate::tools::process::{CustomSession, OperationReply, ends_stage, submit};
use crate::tools::{PendingToolResult, ToolCall, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// Episode whose state the program keeps.
pub struct ProgramState {
    pub session: CustomSession,
    /// Maximum size of a call's result in bytes.
    pub max_bytes: u64,
    /// Whether the program replies to turns without calls.
    pub steps: bool,
    pub on_error: ExceptionPolicy,
    /// Name of the environment in messages.
    pub label: String,
    /// Number of replies already processed.
    pub replies_seen: usize,
}

/// Update of the episode in a reply of the program.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct EpisodeUpdate {
    /// Whether the episode is over.
    done: bool,
    /// The final answer, if it is over.
    answer: Option<String>,
    /// Messages that the model reads next.
    messages: Vec<ProgramMessage>,
}

/// A message as the program writes it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct ProgramMessage {
    role: String,
    content: String,
}

/// Source of the reply to a turn without calls.
struct StepResultSource(CallResultSource);

impl PendingResultSource for StepResultSource {
    fn poll(&self) -> Option<ToolResult> {
        self.wait(Duration::ZERO)
    }
    fn wait(&self, wait: Duration) -> Option<ToolResult> {
        // `after_text` reads the reply's content; here, only a failure is a result.
        Some(match self.0.pending.reply(wait)? {
            OperationReply::Value(_) => ToolResult::ok(""),
            OperationReply::Raised(exception) => ToolResult::infrastructure(exception.to_string()),
            other => result(&other, self.0.max_bytes),
        })
    }
}

impl ProgramState {
    /// Returns the replies since the last call of this method.
    fn new_replies(&mut self) -> Vec<OperationReply> {
        let replies = self.session.replies(self.replies_seen);
        self.replies_seen += replies.len();
        replies
    }
}

impl EpisodeState for ProgramState {
    fn submit(&mut self, call: &ToolCall) -> PendingToolResult {
        submit(&self.session, call, self.max_bytes)
    }
    fn after_calls(&mut self, _results: &[ToolResult]) -> AfterTurn {
        let updates = self.new_replies().into_iter().filter_map(|reply| episode_update(&reply).ok().flatten());
        let updates: Vec<EpisodeUpdate> = updates.collect();
        match updates.iter().find(|f| f.done) {
            Some(last) => AfterTurn::End(last.answer.clone()),
            None => AfterTurn::Continue(updates.iter().flat_map(|f| messages(&f.messages)).collect()),
        }
    }
    fn submit_text(&mut self, text: &str) -> Option<PendingToolResult> {
        if !self.steps {
            return None;
        }
        let body = [("text".to_string(), json!(text))].into_iter().collect();
        let pending = self.session.submit("step", body, "a turn without calls");
        Some(PendingToolResult::from_source(StepResultSource(CallResultSource { pending, max_bytes: self.max_bytes })))
    }
    fn after_text(&mut self, _text: &str) -> Option<AfterTurn> {
        let update = self.new_replies().pop().and_then(|reply| episode_update(&reply).ok().flatten())?;
        Some(if update.done { AfterTurn::End(update.answer) } else { AfterTurn::Continue(messages(&update.messages)) })
    }
    /// Returns an invalid reply, an exception of the environment unless `on_error` skips it, or a failure of the
    /// session that would end every episode. Exceptions of tools are shown to the model instead.
    fn failure(&mut self) -> Option<Error> {
        let with_label = |error: Error| error.at(&self.label);
        let replies = self.session.replies(self.replies_seen);
        let invalid = replies.iter().find_map(|reply| episode_update(reply).err());
        if invalid.is_some() {
            return invalid.map(with_label);
        }
        if let Some(exception) = self.session.raised(self.replies_seen) {
            return (self.on_error == ExceptionPolicy::Fail).then(|| with_label(exception.error()));
        }
        self.session.failed().filter(ends_stage).map(with_label)
    }
    fn fork(&self) -> Result<Box<dyn EpisodeState>> {
        let Self { max_bytes, steps, on_error, replies_seen, .. } = *self;
        let (session, label) = (self.session.fork(), self.label.clone());
        Ok(Box::new(Self { session, max_bytes, steps, on_error, label, replies_seen }))
    }
}

/// Returns the episode update in a reply; `None` for a failure, null or a text. Errors: data, if the value has another
/// form.
fn episode_update(reply: &OperationReply) -> Result<Option<EpisodeUpdate>> {
    let OperationReply::Value(value) = reply else { return Ok(None) };
    match value {
        Value::Null | Value::String(_) => Ok(None),
        Value::Object(_) => serde_json::from_value(value.clone())
            .map(Some)
            .map_err(|e| Error::data(format!("the program returned {value} for a turn: {e}"))),
        other => Err(Error::data(format!("the program returned {other} for a turn"))
            .help("return null, or a map with `messages` or `done`")),
    }
}

pub fn messages(messages: &[ProgramMessage]) -> Vec<Message> {
    messages.iter().map(|message| Message::new(message.role.as_str(), message.content.as_str())).collect()
}
