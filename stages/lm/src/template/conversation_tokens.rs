//! Holds the tokens of a conversation.

use std::ops::Range;

/// Tokens of a conversation. All lists of tokens have one length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversationTokens {
    /// Tokens of all contexts, in order.
    pub token_ids: Vec<u32>,
    /// True for the content of assistant messages and the token that ends each of them, under the context before the
    /// message; false for assistant messages of a prompt that [`super::TokenizedConversation::open_first_turn`] has
    /// ended.
    pub loss_mask: Vec<bool>,
    /// Agent turn from 0; the prompt belongs to turn 0, an observation to the turn that it opens.
    pub turn: Vec<u16>,
    /// Tokens before the first assistant content, including the generation prompt.
    pub prompt_tokens: usize,
    /// Indices at which further contexts begin, because the template rewrote earlier text. Tokens from such an index on
    /// do not see the tokens before it.
    pub restarts: Vec<usize>,
}

impl ConversationTokens {
    /// Returns the contexts with their turns, each a separate sequence.
    pub fn contexts(&self) -> Vec<Range<usize>> {
        let ends = self.restarts.iter().copied().chain([self.token_ids.len()]);
        let mut start = 0;
        ends.map(|end| std::mem::replace(&mut start, end)..end).collect()
    }
    /// Returns the tokens of the longest context.
    pub fn longest(&self) -> usize {
        self.contexts().iter().map(Range::len).max().unwrap_or(0)
    }
    /// Adds the tokens of another conversation as further contexts; its turns are renumbered to follow.
    pub fn append(&mut self, other: Self) {
        let (first, turns) = (self.token_ids.len(), self.turn.iter().max().map_or(0, |last| last + 1));
        if first == 0 {
            *self = other;
            return;
        }
        self.restarts.push(first);
        self.restarts.extend(other.restarts.iter().map(|at| first + at));
        self.token_ids.extend(other.token_ids);
        self.loss_mask.extend(other.loss_mask);
        self.turn.extend(other.turn.iter().map(|turn| turns + turn));
    }
    /// Returns the index at which the last context begins.
    pub(super) fn start(&self) -> usize {
        self.restarts.last().copied().unwrap_or(0)
    }
    pub(super) fn restart(&mut self) {
        self.restarts.push(self.token_ids.len());
    }
    /// Drops all contexts but the last.
    pub(super) fn keep_last_context(&mut self) {
        let start = self.start();
        self.token_ids.drain(..start);
        self.loss_mask.drain(..start);
        self.turn.drain(..start);
        self.restarts.clear();
    }
    pub(super) fn push(&mut self, ids: &[u32], mask: bool, turn: u16) {
        let length = self.token_ids.len() + ids.len();
        self.token_ids.extend_from_slice(ids);
        self.loss_mask.resize(length, mask);
        self.turn.resize(length, turn);
    }
}
