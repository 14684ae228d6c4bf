//! Messages to one address from any thread, whose responses are passed to functions.

use crate::background::Background;
use crate::base_url::BaseUrl;
use crate::fault::HttpFault;
use crate::transport::{Credentials, HttpRequest, HttpResponse, HttpTransport, RequestLimits};
use std::sync::Arc;
use trainyard_core::Result;

/// Sends messages on a separate thread. Requests in flight are cancelled when it is dropped.
pub struct CallbackClient {
    background: Background,
    client: Arc<HttpTransport>,
}

impl CallbackClient {
    /// Creates the box without sending a message. The credentials are headers of every request. Errors: invalid (a
    /// header).
    pub fn open(address: BaseUrl, credentials: impl Into<Credentials>, limits: RequestLimits) -> Result<Self> {
        let background = Background::start()?;
        Ok(Self { background, client: Arc::new(HttpTransport::new(address, credentials.into(), limits)?) })
    }
    /// Sends a message. `then` gets the response on a thread of the box; it is not called if the box is dropped before.
    pub fn send(&self, post: HttpRequest, then: impl FnOnce(Result<HttpResponse, HttpFault>) + Send + 'static) {
        let client = self.client.clone();
        self.background.spawn(async move { then(client.send(&post).await) });
    }
}
