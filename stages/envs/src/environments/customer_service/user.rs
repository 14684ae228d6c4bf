//! Defines simulated customers, and implements the scripted one, which is free and repeatable.
//!
//! The first rule that matches decides, by the words of the agent's message (ignoring case). The user,
//!
//! 1. asked for an action of a user tool: performs and reports it;
//! 2. asked for identification for the first time: states the known data, and the unknown data if the email is
//!    requested;
//! 3. asked whether there is anything else (and not to confirm): leaves;
//! 4. asked to confirm: agrees, unless it is an open question (which, what) that the script answers;
//! 5. asked a question that the script answers: answers;
//! 6. asked again for identification: states the unknown data, or the known data if the script has no other;
//! 7. asked anything else: repeats the reason for the contact;
//! 8. given a statement: leaves if the agent has changed anything since the user's last message, or declines; otherwise
//!    waits.
//!
//! The user tolerates [`MAX_IDLE_MESSAGES`] messages that trigger rule 7 or 8 without a message in between that
//! triggers another rule, and leaves at the next. A scripted user states all wishes at once, consents to every request,
//! and ignores conditions ("if that is too expensive, then …"). So tasks are easier in some ways and harder in others
//! than with tau2-bench's simulated users, and success rates are not comparable.

use super::task::{ScriptedAnswer, UserScript};
use crate::tools::PendingToolResult;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::Error;

/// Number of messages without progress that the user tolerates.
pub const MAX_IDLE_MESSAGES: u32 = 3;

const IDENTITY_WORDS: [&str; 8] =
    ["email", "e-mail", "zip", "your name", "full name", "first name", "identity", "authenticat"];
const ANYTHING_ELSE: [&str; 4] = ["anything else", "something else", "any other", "further assistance"];
const CONFIRM: [&str; 8] =
    ["confirm", "yes/no", "(yes", "shall i", "should i", "proceed", "is that correct", "is this correct"];
const OPEN: [&str; 5] = ["which", "what ", "how would", "please provide", "could you provide"];
const REFUSAL: [&str; 6] = ["cannot", "can't", "unable", "not able", "not possible", "unfortunately"];

/// A user's reaction to a message of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaction {
    /// The user answers.
    Reply(String),
    /// The user ends the conversation.
    Leave,
}

/// Simulated user of a conversation.
pub trait SimulatedUser: Send {
    /// Receives a message before [`SimulatedUser::answer`] is called, and may request the reply in the background.
    /// Returns a result that is available once the reply is; `None` if the reply is available immediately.
    fn receive(&mut self, _message: &str) -> Option<PendingToolResult> {
        None
    }
    /// Returns the error that stops the stage, if the reply failed for a reason that would affect every episode. Called
    /// once the reply is available.
    fn failure(&mut self) -> Option<Error> {
        None
    }
    /// Returns the reaction to a message. `changed` is true if the agent has changed the database since the last
    /// message.
    fn answer(&mut self, message: &str, changed: bool) -> Reaction;
    /// Returns the state of the simulated user's devices.
    fn state(&self) -> &BTreeMap<String, String>;
    /// Returns a copy that continues as this one would.
    fn copy(&self) -> Box<dyn SimulatedUser>;
}

/// A user who follows a script.
#[derive(Debug, Clone)]
pub struct ScriptedUser {
    script: Arc<UserScript>,
    state: BTreeMap<String, String>,
    identified: bool,
    idle: u32,
}

impl ScriptedUser {
    /// Returns a user at the start of a conversation.
    pub fn new(script: Arc<UserScript>) -> Self {
        let state = script.state.clone();
        Self { script, state, identified: false, idle: 0 }
    }

    /// Applies rule 1: uses the first user tool that a message, in lower case, requests, and returns the reply. Returns
    /// `None` if the message requests no tool.
    pub fn use_tool(&mut self, message: &str) -> Option<String> {
        let tool = self.script.tools.iter().find(|tool| mentions(message, &tool.when))?;
        let works = tool.apply(&mut self.state);
        Some(if works { tool.says.clone() } else { tool.refuses.clone() })
    }

    /// Applies rules 2 and 6: returns personal data if the message requests identification, and remembers that it did.
    fn identify(&mut self, message: &str) -> Option<String> {
        let script = &self.script;
        let (known, unknown) = (!script.known.is_empty(), !script.unknown.is_empty());
        if !mentions(message, &IDENTITY_WORDS) || !(known || unknown) {
            return None;
        }
        let again = std::mem::replace(&mut self.identified, true);
        let asks_email = mentions(message, &["email", "e-mail"]);
        Some(match (known, unknown) {
            (true, true) if !again && asks_email => format!("{} {}", script.known, script.unknown),
            (true, _) if !again => script.known.clone(),
            (_, true) => script.unknown.clone(),
            _ => script.known.clone(),
        })
    }

    fn scripted(&self, message: &str) -> Option<String> {
        self.script
            .answers
            .iter()
            .find(|line: &&ScriptedAnswer| mentions(message, &line.when))
            .map(|line| line.says.clone())
    }

    /// Applies rules 7 and 8: counts a message without progress, and replies or leaves.
    fn idles(&mut self, says: String) -> Reaction {
        self.idle += 1;
        if self.idle > MAX_IDLE_MESSAGES { Reaction::Leave } else { Reaction::Reply(says) }
    }
}

fn mentions(message: &str, words: &[impl AsRef<str>]) -> bool {
    words.iter().any(|word| message.contains(word.as_ref()))
}

impl SimulatedUser for ScriptedUser {
    fn answer(&mut self, message: &str, changed: bool) -> Reaction {
        let message = message.to_lowercase();
        let question = message.contains('?') || message.contains("please");
        let (confirm, open) = (mentions(&message, &CONFIRM), mentions(&message, &OPEN));
        let mut says = self.use_tool(&message);
        if says.is_none() && !self.identified {
            says = self.identify(&message);
        }
        if says.is_none() && !confirm && mentions(&message, &ANYTHING_ELSE) {
            return Reaction::Leave;
        }
        if says.is_none() && question {
            let answer = self.scripted(&message);
            says = match answer {
                Some(answer) if open || !confirm => Some(answer),
                _ if confirm => Some("Yes, please.".to_string()),
                _ => self.identify(&message),
            };
        }
        match says {
            Some(says) => {
                self.idle = 0;
                Reaction::Reply(says)
            }
            None if question => self.idles(self.script.reason.clone()),
            None if changed || mentions(&message, &REFUSAL) => Reaction::Leave,
            None => self.idles("All right, please go on.".to_string()),
        }
    }
    fn state(&self) -> &BTreeMap<String, String> {
        &self.state
    }
    fn copy(&self) -> Box<dyn SimulatedUser> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
#[path = "user_tests.rs"]
mod tests;
