//! Requests to one address from any thread, whose responses are passed to callbacks.

use crate::background::Background;
use crate::base_url::BaseUrl;
use crate::fault::HttpFault;
use crate::transport::{Credentials, HttpRequest, HttpResponse, HttpTransport, RequestLimits};
use std::sync::Arc;
use trainyard_core::Result;

/// Sends requests on a separate thread. Requests in flight are cancelled when it is dropped.
pub struct CallbackClient {
    background: Background,
    client: Arc<HttpTransport>,
}

impl CallbackClient {
    /// Creates the client without sending a request. The credentials are headers of every request. Errors: invalid (a
    /// header).
    pub fn open(address: BaseUrl, credentials: impl Into<Credentials>, limits: RequestLimits) -> Result<Self> {
        let background = Background::start()?;
        Ok(Self { background, client: Arc::new(HttpTransport::new(address, credentials.into(), limits)?) })
    }
    /// Sends a request. `callback` gets the response on a thread of the client; it is not called if the client is
    /// dropped before.
    pub fn send(&self, request: HttpRequest, callback: impl FnOnce(Result<HttpResponse, HttpFault>) + Send + 'static) {
        let client = self.client.clone();
        self.background.spawn(async move { callback(client.send(&request).await) });
    }
}
