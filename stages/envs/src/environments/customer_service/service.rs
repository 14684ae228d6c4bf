//! One conversation as an [`EpisodeState`] of the dialogue: the shop, the user, and the progress of the conversation.

use super::database::{Shop, ShopDatabase};
use super::score::{replay, told, verdict};
use super::task::Task;
use super::tools::{TRANSFER, tool};
use super::user::{Reaction, SimulatedUser};
use crate::environments::{AfterTurn, EpisodeState};
use crate::tools::{Ticket, ToolCall, ToolResult};
use std::collections::BTreeSet;
use std::sync::Arc;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// Parts that are fixed during an episode.
pub struct Case {
    /// Initial database.
    pub base: Arc<ShopDatabase>,
    /// The customer's task.
    pub task: Task,
    /// Whether the score requires that the user was told the task's texts.
    pub communication: bool,
}

/// The state of one conversation.
pub struct Service {
    case: Arc<Case>,
    shop: Shop,
    user: Box<dyn SimulatedUser>,
    /// Indexes into the task's `communicate` that the user has been told.
    told: BTreeSet<usize>,
    /// Whether the database changed since the user last spoke.
    changed: bool,
    /// Whether a person has taken over; the agent's next message then ends the conversation.
    transferred: bool,
}

impl Service {
    /// Returns the start of a conversation with this user.
    pub fn new(case: Arc<Case>, user: Box<dyn SimulatedUser>) -> Self {
        let shop = Shop::new(Arc::clone(&case.base));
        Self { case, shop, user, told: BTreeSet::new(), changed: false, transferred: false }
    }
    fn end(&self) -> AfterTurn {
        let wanted = &self.case.task.communicate;
        let untold = wanted.iter().enumerate().filter(|(i, _)| self.case.communication && !self.told.contains(i));
        let untold: Vec<&str> = untold.map(|(_, text)| text.as_str()).collect();
        AfterTurn::End(Some(verdict(&self.shop, self.user.state(), &untold, &replay(&self.case.base, &self.case.task))))
    }
}

/// Returns the part of a turn that the user receives: no thoughts and no response tags.
fn spoken(text: &str) -> &str {
    let text = text.rsplit_once("</think>").map_or(text, |(_, rest)| rest);
    let text = text.split_once("<response>").map_or(text, |(_, rest)| rest);
    text.split_once("</response>").map_or(text, |(inside, _)| inside).trim()
}

impl EpisodeState for Service {
    fn submit(&mut self, call: &ToolCall) -> Ticket {
        let Some(tool) = tool(&call.name) else { return Ticket::ready(ToolResult::unknown_tool(&call.name, &[])) };
        Ticket::ready(match tool.call(&mut self.shop, &call.arguments) {
            Ok(text) => {
                self.changed |= tool.changes;
                self.transferred |= tool.name == TRANSFER;
                ToolResult::ok(text)
            }
            Err(message) => ToolResult::error(format!("error: {message}")),
        })
    }
    fn say(&mut self, text: &str) -> Option<Ticket> {
        let message = spoken(text);
        // An empty message, or one after a person has taken over, gets no answer.
        if message.is_empty() || self.transferred { None } else { self.user.hear(message) }
    }
    fn failure(&mut self) -> Option<Error> {
        self.user.failure()
    }
    fn after_text(&mut self, text: &str) -> Option<AfterTurn> {
        let message = spoken(text);
        if message.is_empty() {
            return Some(AfterTurn::End(None));
        }
        self.told.extend(told(message, &self.case.task.communicate));
        if self.transferred {
            return Some(self.end());
        }
        let reaction = self.user.answer(message, std::mem::take(&mut self.changed));
        Some(match reaction {
            Reaction::Says(text) => AfterTurn::Continue(vec![Message::new("user", text)]),
            Reaction::Leaves => self.end(),
        })
    }
    fn fork(&self) -> Result<Box<dyn EpisodeState>> {
        let Self { case, shop, user, told, changed, transferred } = self;
        Ok(Box::new(Self {
            case: Arc::clone(case),
            shop: shop.clone(),
            user: user.copy(),
            told: told.clone(),
            changed: *changed,
            transferred: *transferred,
        }))
    }
}
