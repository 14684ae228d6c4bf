//! Defines a segment, the part of an episode that a model reads as one text: a conversation with its samples.
//!
//! An episode has one segment, unless a program keeps the conversation. If the program rewrites its history or has a
//! second conversation, its next request begins another segment.

use super::matching::{continues, same};
use trainyard_learn::TurnSummary;
use trainyard_lm::generate::SequenceState;
use trainyard_lm::template::TokenizedConversation;
use trainyard_tables::Message;

/// Conversation with its samples. Positions are counted from its first token.
#[derive(Clone)]
pub struct ConversationSegment<'a> {
    pub conversation: TokenizedConversation<'a>,
    /// Index of the first token of the context that the episode's sequence decodes.
    pub base: usize,
    /// Samples of earlier sequences, each with the first token of its context.
    pub past: Vec<(usize, SequenceState)>,
    pub turns: Vec<TurnSummary>,
    /// Messages in the program's form; empty unless a program keeps the conversation.
    pub known: Vec<Message>,
    /// Number of messages at the segment's beginning.
    pub prompt: usize,
}

impl<'a> ConversationSegment<'a> {
    pub fn new(conversation: TokenizedConversation<'a>) -> Self {
        Self { conversation, base: 0, past: Vec::new(), turns: Vec::new(), known: Vec::new(), prompt: 0 }
    }
    /// Returns the index of the first token of the current context.
    pub fn context_first(&self) -> usize {
        self.conversation.encoded().token_ids.len() - self.conversation.context().len()
    }
    /// Returns whether the template has rewritten the context of the sequence, so that a new sequence is needed.
    pub fn rewritten(&self) -> bool {
        self.context_first() != self.base
    }
    /// Stores the samples of the current context's sequence. A sequence that continues an earlier one of the same
    /// context got the earlier samples as input, so their mask and log-probabilities are taken from the earlier
    /// sequence.
    pub fn store_samples(&mut self, mut state: SequenceState) {
        if let Some((_, earlier)) = self.past.pop_if(|(base, _)| *base == self.base) {
            let shared = earlier.token_ids.len().min(state.token_ids.len());
            state.loss_mask[..shared].copy_from_slice(&earlier.loss_mask[..shared]);
            state.logprobs[..shared].copy_from_slice(&earlier.logprobs[..shared]);
            state.weights_version[..shared].copy_from_slice(&earlier.weights_version[..shared]);
            state.constrained.splice(..0, earlier.constrained.iter().filter(|token| token.at < shared).copied());
            if earlier.entropies.len() >= shared && state.entropies.len() >= shared {
                state.entropies[..shared].copy_from_slice(&earlier.entropies[..shared]);
            } else {
                state.entropies.clear();
            }
        }
        self.past.push((self.base, state));
    }
    /// Returns whether a request with these messages and tools continues this segment.
    pub fn is_continued_by(&self, request: &[Message], tools: Option<&str>) -> bool {
        !self.turns.is_empty() && self.conversation.tools() == tools && continues(&self.known, request)
    }
    /// Returns the latest turn sampled in this segment that has the same meaning as `message`, as it was sampled, or
    /// `None` without such a turn.
    pub fn sampled(&self, message: &Message) -> Option<&Message> {
        let at = self.known.iter().rposition(|known| known.role == "assistant" && same(known, message))?;
        self.conversation.messages().get(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tiny_model;
    use trainyard_lm::generate::ConstrainedToken;

    #[test]
    fn resumed_segment_keeps_the_constrained_tokens_of_its_earlier_sequence() {
        let state = |length: usize, constrained: &[usize]| SequenceState {
            token_ids: vec![1; length],
            loss_mask: vec![true; length],
            turn: vec![0; length],
            logprobs: vec![0.0; length],
            entropies: vec![0.0; length],
            weights_version: vec![0; length],
            constrained: constrained
                .iter()
                .map(|at| ConstrainedToken { at: *at, free_logprob: -1.0, only: false })
                .collect(),
            prompt_tokens: 0,
            finish: None,
            fork_of: None,
        };
        let model = tiny_model(16, 1, 1);
        let mut segment = ConversationSegment::new(TokenizedConversation::new(&model.chat, None));
        segment.store_samples(state(4, &[1, 3]));
        segment.store_samples(state(7, &[5, 6]));
        assert_eq!(segment.past.len(), 1, "both sequences have the same context");
        let found: Vec<usize> = segment.past[0].1.constrained.iter().map(|token| token.at).collect();
        assert_eq!(found, [1, 3, 5, 6]);
    }
}
