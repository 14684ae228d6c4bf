//! Holds the state that all requests share.

use super::conversations::ConversationCache;
use super::settings::ModelApiSettings;
use crate::apis::ResponseIdentity;
use crate::handler::ModelHandler;
use crate::request::ApiKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// State shared by all requests.
pub struct ModelApiState {
    pub handler: Arc<dyn ModelHandler>,
    pub settings: ModelApiSettings,
    pub conversations: ConversationCache,
    responses: AtomicU64,
}

impl ModelApiState {
    pub fn new(handler: Arc<dyn ModelHandler>, settings: ModelApiSettings) -> Self {
        let conversations = ConversationCache::new(settings.max_conversations);
        Self { handler, settings, conversations, responses: AtomicU64::new(0) }
    }
    /// Returns the identity of the next response, with a unique id.
    pub fn next_identity(&self, api: ApiKind) -> ResponseIdentity {
        let number = self.responses.fetch_add(1, Ordering::Relaxed);
        let mut draws = self.settings.chance.at("answer", &[number]);
        let prefix = match api {
            ApiKind::Chat => "chatcmpl-",
            ApiKind::Completions => "cmpl-",
            ApiKind::Responses => "resp_",
            ApiKind::Messages => "msg_",
        };
        let id = format!("{prefix}{:016x}{:08x}", draws.next_u64(), draws.next_u32());
        ResponseIdentity { id, created: self.settings.clock.unix_millis() / 1000 }
    }
}
