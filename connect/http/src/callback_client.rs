//! Sends requests to one address from any thread, and passes the responses to callbacks.

use crate::background::Background;
use crate::base_url::BaseUrl;
use crate::fault::HttpFault;
use crate::transport::{Credentials, HttpRequest, HttpResponse, HttpTransport, RequestLimits};
use std::sync::Arc;
use trainyard_core::Result;

/// Client that sends requests on a separate thread. Dropping the client cancels the requests in flight.
pub struct CallbackClient {
    background: Background,
    client: Arc<HttpTransport>,
}

impl CallbackClient {
    /// Creates the client without sending a request. Every request has the headers of `credentials`.
    ///
    /// Errors: invalid (a header), retryable (the thread cannot be started).
    pub fn open(address: BaseUrl, credentials: impl Into<Credentials>, limits: RequestLimits) -> Result<Self> {
        let background = Background::start()?;
        Ok(Self { background, client: Arc::new(HttpTransport::new(address, credentials.into(), limits)?) })
    }
    /// Sends a request. The client calls `callback` with the response on its thread, unless the client is dropped
    /// before.
    pub fn send(&self, request: HttpRequest, callback: impl FnOnce(Result<HttpResponse, HttpFault>) + Send + 'static) {
        let client = self.client.clone();
        self.background.spawn(async move { callback(client.send(&request).await) });
    }
}
