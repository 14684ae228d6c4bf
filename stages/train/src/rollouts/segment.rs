//! One stretch of an episode that a model reads as one text: a conversation, and what was sampled in it.
//!
//! Episodes have one segment, but for those of a program that keeps the conversation itself: where it rewrites what was
//! said, or leads another conversation beside, its next call begins another.

use super::attach::{continues, same};
use trainyard_learn::TurnSummary;
use trainyard_lm::generate::SequenceState;
use trainyard_lm::template::Conversation;
use trainyard_tables::Message;

/// A conversation with its samples. Places are counted from its first token.
#[derive(Clone)]
pub struct Segment<'a> {
    pub conversation: Conversation<'a>,
    /// First token of the context that the episode's sequence decodes.
    pub base: usize,
    /// What earlier sequences sampled, each with the first token of its context.
    pub past: Vec<(usize, SequenceState)>,
    pub turns: Vec<TurnSummary>,
    /// The messages as a program knows them; empty where none keeps the conversation.
    pub known: Vec<Message>,
    /// How many messages it began with.
    pub prompt: usize,
}

impl<'a> Segment<'a> {
    pub fn new(conversation: Conversation<'a>) -> Self {
        Self { conversation, base: 0, past: Vec::new(), turns: Vec::new(), known: Vec::new(), prompt: 0 }
    }
    /// First token of the current context.
    pub fn context_first(&self) -> usize {
        self.conversation.encoded().token_ids.len() - self.conversation.context().len()
    }
    /// Whether the template has rewritten what the sequence decoded, so that another one must go on.
    pub fn rewritten(&self) -> bool {
        self.context_first() != self.base
    }
    /// Takes what the sequence of the current context sampled. A sequence that went on after an earlier one of the same
    /// context was given that one's samples, and did not sample them.
    pub fn keep(&mut self, mut state: SequenceState) {
        if let Some((_, earlier)) = self.past.pop_if(|(base, _)| *base == self.base) {
            let shared = earlier.token_ids.len().min(state.token_ids.len());
            state.loss_mask[..shared].copy_from_slice(&earlier.loss_mask[..shared]);
            state.logprobs[..shared].copy_from_slice(&earlier.logprobs[..shared]);
            state.weights_version[..shared].copy_from_slice(&earlier.weights_version[..shared]);
            if earlier.entropies.len() >= shared && state.entropies.len() >= shared {
                state.entropies[..shared].copy_from_slice(&earlier.entropies[..shared]);
            } else {
                state.entropies.clear();
            }
        }
        self.past.push((self.base, state));
    }
    /// Whether a call with these messages and tools goes on here.
    pub fn goes_on(&self, asked: &[Message], tools: Option<&str>) -> bool {
        !self.turns.is_empty() && self.conversation.tools() == tools && continues(&self.known, asked)
    }
    /// The turn that was sampled here and is meant by a message, as it was sampled; the latest one.
    pub fn sampled(&self, message: &Message) -> Option<&Message> {
        let at = self.known.iter().rposition(|known| known.role == "assistant" && same(known, message))?;
        self.conversation.messages().get(at)
    }
}
