//! Simulates a customer with a language model at an endpoint.
//!
//! The model sees the conversation from the customer's side: the agent's messages have the role `user`. Its
//! instructions contain the customer's wishes, knowledge and behavior, and it ends the conversation with [`STOP`]
//! (arXiv 2406.12045, section 3).
//!
//! Tools of the customer stay scripted: when the agent's message requests one, the script applies the tool and supplies
//! the reply. Equal conversations get equal replies, so the rollouts of a group differ only where their agents do.

use super::task::UserScript;
use super::user::{Reaction, ScriptedUser, SimulatedUser};
use crate::tools::{PendingResultSource, PendingToolResult, ToolResult};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use trainyard_chat::{ChatRequest, ChatRequestMessage, ChatResult, Promise, SharedChatClient};
use trainyard_core::{Error, ErrorKind};

/// Text with which the model ends the conversation.
pub const STOP: &str = "###STOP###";

/// Instructions to the model before the task, unless the options override them.
pub const PROMPT: &str = "\
You are a customer who writes to a shop's agent. Stay in that role whatever the agent says.

- Write one short message at a time, in your own words, as people do in a chat.
- Say only what the agent needs next; do not tell everything at once.
- What is not written below you do not know. Never make up names, numbers or orders.
- When you have what you came for, or the agent cannot help you, write ###STOP### and nothing else.";

/// Message of the agent that opens the conversation, before the customer's first message.
const OPENING: &str = "Hello, how can I help you today?";

/// Customer whose replies come from a model.
#[derive(Clone)]
pub struct ModeledUser {
    model: Arc<SharedChatClient>,
    /// Uses the customer's tools.
    script: ScriptedUser,
    messages: Vec<ChatRequestMessage>,
    next: NextReply,
}

/// Next reply of the customer.
#[derive(Clone)]
enum NextReply {
    Nothing,
    Scripted(String),
    Pending(Promise),
}

impl ModeledUser {
    /// Returns a customer at the start of a conversation: the agent has written `OPENING`, and the customer has replied
    /// with the reason for the contact.
    pub fn new(model: &Arc<SharedChatClient>, prompt: &str, script: &Arc<UserScript>) -> Self {
        let messages = vec![
            ChatRequestMessage::new("system", format!("{}\n\n{}", prompt.trim_end(), scenario(script))),
            ChatRequestMessage::new("user", OPENING),
            ChatRequestMessage::new("assistant", script.reason.as_str()),
        ];
        Self {
            model: Arc::clone(model),
            script: ScriptedUser::new(Arc::clone(script)),
            messages,
            next: NextReply::Nothing,
        }
    }
    /// Returns the model's response, once it has arrived; `None` also if the next reply is not the model's.
    fn reply(&self) -> Option<ChatResult> {
        match &self.next {
            NextReply::Pending(promise) => promise.poll(),
            NextReply::Nothing | NextReply::Scripted(_) => None,
        }
    }
}

impl SimulatedUser for ModeledUser {
    fn receive(&mut self, message: &str) -> Option<PendingToolResult> {
        self.messages.push(ChatRequestMessage::new("user", message));
        if let Some(says) = self.script.use_tool(&message.to_lowercase()) {
            self.next = NextReply::Scripted(says);
            return None;
        }
        let promise = self.model.send(ChatRequest { messages: self.messages.clone(), ..ChatRequest::default() });
        self.next = NextReply::Pending(promise.clone());
        Some(PendingToolResult::from_source(promise))
    }
    fn answer(&mut self, _: &str, _: bool) -> Reaction {
        let text = match (&self.next, self.reply()) {
            (NextReply::Scripted(says), _) => says.clone(),
            (_, Some(Ok(Ok(answer)))) => answer.text.trim().to_string(),
            // An episode whose customer was lost has ended before the reply is requested.
            _ => String::new(),
        };
        self.next = NextReply::Nothing;
        if text.is_empty() || text.contains(STOP) {
            return Reaction::Leave;
        }
        self.messages.push(ChatRequestMessage::new("assistant", text.as_str()));
        Reaction::Reply(text)
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

impl PendingResultSource for Promise {
    fn poll(&self) -> Option<ToolResult> {
        self.poll().map(|reply| result(&reply))
    }
    fn wait(&self, wait: Duration) -> Option<ToolResult> {
        self.wait(wait).map(|reply| result(&reply))
    }
}

/// Converts a response to a tool result. A request that the server rejects ends the episode as an infrastructure
/// failure; [`SimulatedUser::failure`] reports errors that end the stage.
fn result(reply: &ChatResult) -> ToolResult {
    match reply {
        Ok(Err(error)) => ToolResult::infrastructure(format!("the customer is lost: {}", error.message)),
        Ok(Ok(_)) | Err(_) => ToolResult::ok(String::new()),
    }
}

/// Returns the task in the customer's words.
fn scenario(script: &UserScript) -> String {
    let answers: Vec<&str> = script.answers.iter().map(|answer| answer.says.as_str()).collect();
    let parts = [
        ("Why you write", script.reason.as_str()),
        ("What you know", script.known.as_str()),
        ("What you do not know", script.unknown.as_str()),
        ("How you behave", script.instructions.as_str()),
        ("What you answer if asked", &answers.join("\n")),
    ];
    let sections = parts.iter().filter(|(_, text)| !text.is_empty()).map(|(title, text)| format!("{title}:\n{text}"));
    sections.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
#[path = "modeled_user_tests.rs"]
mod tests;
