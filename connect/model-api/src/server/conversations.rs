//! Conversations that a later request continues by the id of an answer.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use trainyard_tables::Message;

/// The last conversations, each of one path.
pub struct ConversationCache {
    most: usize,
    list: Mutex<VecDeque<CachedConversation>>,
}

struct CachedConversation {
    base: String,
    id: String,
    messages: Vec<Message>,
}

impl ConversationCache {
    /// Keeps at most this many.
    pub fn new(most: usize) -> Self {
        Self { most, list: Mutex::default() }
    }
    /// Keeps a conversation; if there are too many, the oldest is dropped.
    pub fn insert(&self, base: &str, id: &str, messages: Vec<Message>) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push_back(CachedConversation { base: base.to_string(), id: id.to_string(), messages });
        while list.len() > self.most {
            list.pop_front();
        }
    }
    /// Returns a conversation of this path.
    pub fn find(&self, base: &str, id: &str) -> Option<Vec<Message>> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().rev().find(|entry| entry.base == base && entry.id == id).map(|entry| entry.messages.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first_and_paths_are_apart() {
        let kept = ConversationCache::new(2);
        for id in ["a", "b", "c"] {
            kept.insert("/e/1", id, vec![Message::new("user", id)]);
        }
        assert_eq!(kept.find("/e/1", "a"), None);
        assert_eq!(kept.find("/e/1", "c").unwrap()[0].content, "c");
        assert_eq!(kept.find("/e/2", "c"), None);
    }
}
