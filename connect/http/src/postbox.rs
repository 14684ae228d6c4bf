//! Messages to one address from any thread, whose responses are passed to functions.

use crate::address::Address;
use crate::client::{Client, Credentials, Heard, Limits, Post};
use crate::fault::Fault;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use trainyard_core::{Error, Result};

/// Sends messages on a separate thread. Requests in flight are cancelled when it is dropped.
pub struct Postbox {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    client: Arc<Client>,
}

impl Postbox {
    /// Creates the box without sending a message. The credentials are headers of every request. Errors: invalid (a
    /// header).
    pub fn open(address: Address, credentials: impl Into<Credentials>, limits: Limits) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("http").enable_all().build();
        let runtime = runtime.map_err(|e| Error::retryable(format!("no runtime for requests: {e}")))?;
        Ok(Self { runtime: Some(runtime), client: Arc::new(Client::new(address, credentials.into(), limits)?) })
    }
    /// Sends a message. `then` gets the response on a thread of the box; it is not called if the box is dropped before.
    pub fn post(&self, post: Post, then: impl FnOnce(Result<Heard, Fault>) + Send + 'static) {
        let client = self.client.clone();
        if let Some(runtime) = &self.runtime {
            runtime.spawn(async move { then(client.deliver(&post).await) });
        }
    }
}

impl Drop for Postbox {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
