//! One episode of a program: its calls and words go to the program, whose replies say what follows.

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

/// The episode as the program keeps it.
pub struct ProgramState {
    pub session: Session,
    /// Bytes that the result of a call may have.
    pub most: u64,
    /// The program answers turns without calls.
    pub steps: bool,
    pub on_error: OnError,
    /// The environment in messages.
    pub place: String,
    /// Replies that were looked at.
    pub seen: usize,
}

/// What the program says of the episode beside a result.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Follows {
    /// The episode is over.
    done: bool,
    /// The final answer, if it is over.
    answer: Option<String>,
    /// What the model reads next.
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
        // What it says is read once it has come; only a failure is a result.
        Some(match self.0.awaited.reply(wait)? {
            Reply::Value(_) => ToolResult::ok(""),
            Reply::Raised(raised) => ToolResult::infrastructure(raised.to_string()),
            other => result(&other, self.0.most),
        })
    }
}

impl ProgramState {
    /// The replies since this was last asked.
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
    /// An exception of a tool is for the model to see; any other is a mistake of the environment.
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

/// What a reply says of the episode; none if it says nothing. Errors: data (it says what nobody understands).
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

/// Messages for the model.
pub fn messages(said: &[Said]) -> Vec<Message> {
    said.iter().map(|one| Message::new(one.role.as_str(), one.content.as_str())).collect()
}
