//! Messages to one address from any thread, whose responses are passed to functions.

use crate::address::Address;
use crate::background::Background;
use crate::client::{Client, Credentials, Heard, Limits, Post};
use crate::fault::Fault;
use std::sync::Arc;
use trainyard_core::Result;

/// Sends messages on a separate thread. Requests in flight are cancelled when it is dropped.
pub struct Postbox {
    background: Background,
    client: Arc<Client>,
}

impl Postbox {
    /// Creates the box without sending a message. The credentials are headers of every request. Errors: invalid (a
    /// header).
    pub fn open(address: Address, credentials: impl Into<Credentials>, limits: Limits) -> Result<Self> {
        let background = Background::start()?;
        Ok(Self { background, client: Arc::new(Client::new(address, credentials.into(), limits)?) })
    }
    /// Sends a message. `then` gets the response on a thread of the box; it is not called if the box is dropped before.
    pub fn post(&self, post: Post, then: impl FnOnce(Result<Heard, Fault>) + Send + 'static) {
        let client = self.client.clone();
        self.background.spawn(async move { then(client.deliver(&post).await) });
    }
}
