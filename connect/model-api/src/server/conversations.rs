//! Caches conversations, which a later request continues by the id of a response.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use trainyard_tables::Message;

/// The latest conversations. A conversation is found only under the base path of its request.
pub struct ConversationCache {
    max: usize,
    list: Mutex<VecDeque<CachedConversation>>,
}

struct CachedConversation {
    base: String,
    id: String,
    messages: Vec<Message>,
}

impl ConversationCache {
    /// Creates a cache of at most `max` conversations.
    pub fn new(max: usize) -> Self {
        Self { max, list: Mutex::default() }
    }
    /// Adds a conversation; above the maximum, the oldest ones are dropped.
    pub fn insert(&self, base: &str, id: &str, messages: Vec<Message>) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push_back(CachedConversation { base: base.to_string(), id: id.to_string(), messages });
        while list.len() > self.max {
            list.pop_front();
        }
    }
    /// Returns the conversation of a response, or `None` if the cache no longer has it.
    pub fn find(&self, base: &str, id: &str) -> Option<Vec<Message>> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().rev().find(|entry| entry.base == base && entry.id == id).map(|entry| entry.messages.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_conversation_is_dropped_and_paths_are_separate() {
        let cache = ConversationCache::new(2);
        for id in ["a", "b", "c"] {
            cache.insert("/e/1", id, vec![Message::new("user", id)]);
        }
        assert_eq!(cache.find("/e/1", "a"), None);
        assert_eq!(cache.find("/e/1", "c").unwrap()[0].content, "c");
        assert_eq!(cache.find("/e/2", "c"), None);
    }
}
