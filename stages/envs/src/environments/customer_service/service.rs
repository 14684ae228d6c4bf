//! One conversation: the shop, the user, and what has been said; a [`World`] for the dialogue.

use super::database::{Database, Shop};
use super::score::{replay, told, verdict};
use super::task::Task;
use super::tools::{TRANSFER, tool};
use super::user::{Reaction, SimulatedUser};
use crate::environments::{Reply, World};
use crate::tools::{Ticket, ToolCall, ToolResult};
use std::collections::BTreeSet;
use std::sync::Arc;
use trainyard_core::Result;
use trainyard_tables::Message;

/// What an episode does not change.
pub struct Case {
    pub base: Arc<Database>,
    pub task: Task,
    /// Whether what the user must be told counts.
    pub communication: bool,
}

pub struct Service {
    case: Arc<Case>,
    shop: Shop,
    user: Box<dyn SimulatedUser>,
    /// Places in the task's `communicate` that were said to the user.
    told: BTreeSet<usize>,
    /// The database was changed since the user last spoke.
    changed: bool,
    /// A person has taken over; the agent's next message ends the conversation.
    transferred: bool,
}

impl Service {
    pub fn new(case: Arc<Case>, user: Box<dyn SimulatedUser>) -> Self {
        let shop = Shop::new(Arc::clone(&case.base));
        Self { case, shop, user, told: BTreeSet::new(), changed: false, transferred: false }
    }
    fn end(&self) -> Reply {
        let wanted = &self.case.task.communicate;
        let untold = wanted.iter().enumerate().filter(|(i, _)| self.case.communication && !self.told.contains(i));
        let untold: Vec<&str> = untold.map(|(_, text)| text.as_str()).collect();
        Reply::End(Some(verdict(&self.shop, self.user.state(), &untold, &replay(&self.case.base, &self.case.task))))
    }
}

/// What the user hears of a turn: no thoughts, no markup around a response.
fn spoken(text: &str) -> &str {
    let text = text.rsplit_once("</think>").map_or(text, |(_, rest)| rest);
    let text = text.split_once("<response>").map_or(text, |(_, rest)| rest);
    text.split_once("</response>").map_or(text, |(inside, _)| inside).trim()
}

impl World for Service {
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
    fn after_text(&mut self, text: &str) -> Option<Reply> {
        let message = spoken(text);
        if message.is_empty() {
            return Some(Reply::End(None));
        }
        self.told.extend(told(message, &self.case.task.communicate));
        if self.transferred {
            return Some(self.end());
        }
        let reaction = self.user.answer(message, std::mem::take(&mut self.changed));
        Some(match reaction {
            Reaction::Says(text) => Reply::GoOn(vec![Message::new("user", text)]),
            Reaction::Leaves => self.end(),
        })
    }
    fn fork(&self) -> Result<Box<dyn World>> {
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
