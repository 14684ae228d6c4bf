//! One episode of a program: calls and turns go to the program, whose replies define the continuation.

use crate::environments::{AfterTurn, EpisodeState};
use crate::programs::OnError;
use crate::tools::process::result::{CallClaim, result};
use crate::tools::process::{Reply, Session, ends_stage, submit};
use crate::tools::ticket::Claim;
use crate::tools::{Ticket, ToolCall, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// Episode whose state the program keeps.
pub struct ProgramState {
    pub session: Session,
    /// Maximum size of a call's result in bytes.
    pub most: u64,
    /// Whether the program answers turns without calls.
    pub steps: bool,
    pub on_error: OnError,
    /// Name of the environment in messages.
    pub place: String,
    /// Number of replies already processed.
    pub seen: usize,
}

/// The program's statements on the episode in addition to a result.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Follows {
    /// Whether the episode is over.
    done: bool,
    /// The final answer, if it is over.
    answer: Option<String>,
    /// Messages that the model reads next.
    messages: Vec<Said>,
}

/// A message as the program writes it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Said {
    role: String,
    content: String,
}

/// A claim on the reply to a turn without calls.
struct StepClaim(CallClaim);

impl Claim for StepClaim {
    fn poll(&self) -> Option<ToolResult> {
        self.wait(Duration::ZERO)
    }
    fn wait(&self, wait: Duration) -> Option<ToolResult> {
        // The reply's content is read once it has arrived; only a failure is a result.
        Some(match self.0.awaited.reply(wait)? {
            Reply::Value(_) => ToolResult::ok(""),
            Reply::Raised(raised) => ToolResult::infrastructure(raised.to_string()),
            other => result(&other, self.0.most),
        })
    }
}

impl ProgramState {
    /// Returns the replies since the last call.
    fn fresh(&mut self) -> Vec<Reply> {
        let replies = self.session.replies(self.seen);
        self.seen += replies.len();
        replies
    }
}

impl EpisodeState for ProgramState {
    fn submit(&mut self, call: &ToolCall) -> Ticket {
        submit(&self.session, call, self.most)
    }
    fn after_calls(&mut self, _results: &[ToolResult]) -> AfterTurn {
        let follows = self.fresh().into_iter().filter_map(|reply| follows(&reply).ok().flatten());
        let follows: Vec<Follows> = follows.collect();
        match follows.iter().find(|f| f.done) {
            Some(end) => AfterTurn::End(end.answer.clone()),
            None => AfterTurn::Continue(follows.iter().flat_map(|f| messages(&f.messages)).collect()),
        }
    }
    fn say(&mut self, text: &str) -> Option<Ticket> {
        if !self.steps {
            return None;
        }
        let body = [("text".to_string(), json!(text))].into_iter().collect();
        let awaited = self.session.ask("step", body, "a turn without calls");
        Some(Ticket::on(StepClaim(CallClaim { awaited, most: self.most })))
    }
    fn after_text(&mut self, _text: &str) -> Option<AfterTurn> {
        let follows = self.fresh().pop().and_then(|reply| follows(&reply).ok().flatten())?;
        Some(if follows.done {
            AfterTurn::End(follows.answer)
        } else {
            AfterTurn::Continue(messages(&follows.messages))
        })
    }
    /// Returns an exception of the environment; exceptions of tools are shown to the model instead.
    fn failure(&mut self) -> Option<Error> {
        let place = |error: Error| error.at(&self.place);
        let replies = self.session.replies(self.seen);
        let wrong = replies.iter().find_map(|reply| follows(reply).err());
        if wrong.is_some() {
            return wrong.map(place);
        }
        if let Some(raised) = self.session.raised(self.seen) {
            return (self.on_error == OnError::Fail).then(|| place(raised.error()));
        }
        self.session.failed().filter(ends_stage).map(place)
    }
    fn fork(&self) -> Result<Box<dyn EpisodeState>> {
        let Self { most, steps, on_error, seen, .. } = *self;
        let (session, place) = (self.session.fork(), self.place.clone());
        Ok(Box::new(Self { session, most, steps, on_error, place, seen }))
    }
}

/// Returns the statements of a reply on the episode; `None` if it contains none. Errors: data (unknown content).
fn follows(reply: &Reply) -> Result<Option<Follows>> {
    let Reply::Value(value) = reply else { return Ok(None) };
    match value {
        Value::Null | Value::String(_) => Ok(None),
        Value::Object(_) => serde_json::from_value(value.clone())
            .map(Some)
            .map_err(|e| Error::data(format!("the program answered a turn with {value}: {e}"))),
        other => Err(Error::data(format!("the program answered a turn with {other}"))
            .help("answer with null, or a map with `messages` or `done`")),
    }
}

/// Returns messages for the model.
pub fn messages(said: &[Said]) -> Vec<Message> {
    said.iter().map(|one| Message::new(one.role.as_str(), one.content.as_str())).collect()
}
