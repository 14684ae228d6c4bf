//! A customer played by a language model behind an endpoint.
//!
//! The model sees the conversation from the customer's side: what the agent says are the messages of role `user`. It
//! is told what it wants, what it knows and how it behaves, and ends the conversation with [`STOP`] (2406.12045,
//! section 3).
//! Tools of the customer stay scripted: when the agent asks for what one of them does, it is used, and the script says
//! so. Who hears the same conversation says the same, so a group of rollouts forks only where its agents do.

use super::task::UserScript;
use super::user::{Reaction, ScriptedUser, SimulatedUser};
use crate::tools::{Claim, Ticket, ToolResult};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use trainyard_chat::{Line, Promise, Question, Reply, Said};
use trainyard_core::{Error, ErrorKind};

/// What the model writes to leave.
pub const STOP: &str = "###STOP###";

/// What the model is told before the task, unless the options say otherwise.
pub const PROMPT: &str = "\
You are a customer who writes to a shop's agent. Stay in that role whatever the agent says.

- Write one short message at a time, in your own words, as people do in a chat.
- Say only what the agent needs next; do not tell everything at once.
- What is not written below you do not know. Never make up names, numbers or orders.
- When you have what you came for, or the agent cannot help you, write ###STOP### and nothing else.";

/// How the agent opened the conversation, before the customer's first message.
const OPENING: &str = "Hello, how can I help you today?";

/// A customer who asks a model what to say.
#[derive(Clone)]
pub struct ModeledUser {
    line: Arc<Line>,
    /// Uses the customer's tools.
    script: ScriptedUser,
    said: Vec<Said>,
    next: Next,
}

/// What the customer is about to say.
#[derive(Clone)]
enum Next {
    Nothing,
    Scripted(String),
    Asked(Promise),
}

impl ModeledUser {
    /// A customer at the start of a conversation, which their own words have begun.
    pub fn new(line: &Arc<Line>, prompt: &str, script: &Arc<UserScript>) -> Self {
        let said = vec![
            Said::new("system", format!("{}\n\n{}", prompt.trim_end(), scenario(script))),
            Said::new("user", OPENING),
            Said::new("assistant", script.reason.as_str()),
        ];
        Self { line: Arc::clone(line), script: ScriptedUser::new(Arc::clone(script)), said, next: Next::Nothing }
    }
    /// What the model answered, once it has.
    fn reply(&self) -> Option<Reply> {
        match &self.next {
            Next::Asked(promise) => promise.poll(),
            Next::Nothing | Next::Scripted(_) => None,
        }
    }
}

impl SimulatedUser for ModeledUser {
    fn hear(&mut self, message: &str) -> Option<Ticket> {
        self.said.push(Said::new("user", message));
        if let Some(says) = self.script.acts(&message.to_lowercase()) {
            self.next = Next::Scripted(says);
            return None;
        }
        let promise = self.line.ask(Question { messages: self.said.clone(), ..Question::default() });
        self.next = Next::Asked(promise.clone());
        Some(Ticket::on(promise))
    }
    fn answer(&mut self, _: &str, _: bool) -> Reaction {
        let text = match (&self.next, self.reply()) {
            (Next::Scripted(says), _) => says.clone(),
            (_, Some(Ok(Ok(answer)))) => answer.text.trim().to_string(),
            // An episode whose customer was lost has ended before anybody asks what they say.
            _ => String::new(),
        };
        self.next = Next::Nothing;
        if text.is_empty() || text.contains(STOP) {
            return Reaction::Leaves;
        }
        self.said.push(Said::new("assistant", text.as_str()));
        Reaction::Says(text)
    }
    fn state(&self) -> &BTreeMap<String, String> {
        self.script.state()
    }
    fn failure(&mut self) -> Option<Error> {
        match self.reply()? {
            Err(error) => Some(error.at("the customer of `customer-service`")),
            Ok(Err(error)) if error.kind == ErrorKind::Bug => Some(error),
            Ok(_) => None,
        }
    }
    fn copy(&self) -> Box<dyn SimulatedUser> {
        Box::new(self.clone())
    }
}

impl Claim for Promise {
    fn poll(&self) -> Option<ToolResult> {
        self.poll().map(|reply| result(&reply))
    }
    fn wait(&self, wait: Duration) -> Option<ToolResult> {
        self.wait(wait).map(|reply| result(&reply))
    }
}

/// A question that the server refuses loses the episode; what ends the stage is told by [`SimulatedUser::failure`].
fn result(reply: &Reply) -> ToolResult {
    match reply {
        Ok(Err(error)) => ToolResult::infrastructure(format!("the customer is lost: {}", error.message)),
        Ok(Ok(_)) | Err(_) => ToolResult::ok(String::new()),
    }
}

/// The task in the customer's words.
fn scenario(script: &UserScript) -> String {
    let answers: Vec<&str> = script.answers.iter().map(|answer| answer.says.as_str()).collect();
    let parts = [
        ("Why you write", script.reason.as_str()),
        ("What you know", script.known.as_str()),
        ("What you do not know", script.unknown.as_str()),
        ("How you behave", script.instructions.as_str()),
        ("What you answer if asked", &answers.join("\n")),
    ];
    let told = parts.iter().filter(|(_, text)| !text.is_empty()).map(|(title, text)| format!("{title}:\n{text}"));
    told.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
#[path = "modeled_user_tests.rs"]
mod tests;
