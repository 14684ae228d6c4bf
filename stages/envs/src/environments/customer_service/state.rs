//! Implements [`EpisodeState`] for a conversation: the shop, the user, and the progress of the conversation.

use super::database::{Shop, ShopDatabase};
use super::score::{communicated, replay, verdict};
use super::task::CustomerTask;
use super::tools::{TRANSFER, tool};
use super::user::{Reaction, SimulatedUser};
use crate::environments::{AfterTurn, EpisodeState};
use crate::tools::{PendingToolResult, ToolCall, ToolResult};
use std::collections::BTreeSet;
use std::sync::Arc;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// Parts that are fixed during an episode.
pub struct CustomerServiceContext {
    /// Initial database.
    pub base: Arc<ShopDatabase>,
    /// The customer's task.
    pub task: CustomerTask,
    /// Whether the score requires that the agent told the user the task's texts.
    pub communication: bool,
}

/// The state of one conversation.
pub struct CustomerServiceState {
    context: Arc<CustomerServiceContext>,
    shop: Shop,
    user: Box<dyn SimulatedUser>,
    /// Indexes into the task's `communicate` of the texts that the user has received.
    communicated: BTreeSet<usize>,
    /// Whether the database changed since the user's last message.
    changed: bool,
    /// Whether a person has taken over; the agent's next message then ends the conversation.
    transferred: bool,
}

impl CustomerServiceState {
    /// Returns the start of a conversation with this user.
    pub fn new(context: Arc<CustomerServiceContext>, user: Box<dyn SimulatedUser>) -> Self {
        let shop = Shop::new(Arc::clone(&context.base));
        Self { context, shop, user, communicated: BTreeSet::new(), changed: false, transferred: false }
    }
    fn end(&self) -> AfterTurn {
        let expected = &self.context.task.communicate;
        let missing_texts =
            expected.iter().enumerate().filter(|(i, _)| self.context.communication && !self.communicated.contains(i));
        let missing_texts: Vec<&str> = missing_texts.map(|(_, text)| text.as_str()).collect();
        AfterTurn::End(Some(verdict(
            &self.shop,
            self.user.state(),
            &missing_texts,
            &replay(&self.context.base, &self.context.task),
        )))
    }
}

/// Returns the part of a turn that the user receives: no thoughts and no response tags.
fn user_text(text: &str) -> &str {
    let text = text.rsplit_once("</think>").map_or(text, |(_, rest)| rest);
    let text = text.split_once("<response>").map_or(text, |(_, rest)| rest);
    text.split_once("</response>").map_or(text, |(inside, _)| inside).trim()
}

impl EpisodeState for CustomerServiceState {
    fn submit(&mut self, call: &ToolCall) -> PendingToolResult {
        let Some(tool) = tool(&call.name) else {
            return PendingToolResult::ready(ToolResult::unknown_tool(&call.name, &[]));
        };
        PendingToolResult::ready(match tool.call(&mut self.shop, &call.arguments) {
            Ok(text) => {
                self.changed |= tool.changes;
                self.transferred |= tool.name == TRANSFER;
                ToolResult::ok(text)
            }
            Err(message) => ToolResult::error(format!("error: {message}")),
        })
    }
    fn submit_text(&mut self, text: &str) -> Option<PendingToolResult> {
        let message = user_text(text);
        // An empty message, or one after a person has taken over, gets no reply.
        if message.is_empty() || self.transferred { None } else { self.user.receive(message) }
    }
    fn failure(&mut self) -> Option<Error> {
        self.user.failure()
    }
    fn after_text(&mut self, text: &str) -> Option<AfterTurn> {
        let message = user_text(text);
        if message.is_empty() {
            return Some(AfterTurn::End(None));
        }
        self.communicated.extend(communicated(message, &self.context.task.communicate));
        if self.transferred {
            return Some(self.end());
        }
        let reaction = self.user.answer(message, std::mem::take(&mut self.changed));
        Some(match reaction {
            Reaction::Reply(text) => AfterTurn::Continue(vec![Message::new("user", text)]),
            Reaction::Leave => self.end(),
        })
    }
    fn fork(&self) -> Result<Box<dyn EpisodeState>> {
        let Self { context, shop, user, communicated, changed, transferred } = self;
        Ok(Box::new(Self {
            context: Arc::clone(context),
            shop: shop.clone(),
            user: user.copy(),
            communicated: communicated.clone(),
            changed: *changed,
            transferred: *transferred,
        }))
    }
}
