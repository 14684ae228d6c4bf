//! Messages to one address from any thread, whose responses are passed to functions.

use crate::base_url::BaseUrl;
use crate::fault::HttpFault;
use crate::transport::{Credentials, HttpRequest, HttpResponse, HttpTransport, RequestLimits};
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use trainyard_core::{Error, Result};

/// Sends messages on a separate thread. Requests in flight are cancelled when it is dropped.
pub struct CallbackClient {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    client: Arc<HttpTransport>,
}

impl CallbackClient {
    /// Creates the box without sending a message. The credentials are headers of every request. Errors: invalid (a
    /// header).
    pub fn open(address: BaseUrl, credentials: impl Into<Credentials>, limits: RequestLimits) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("http").enable_all().build();
        let runtime = runtime.map_err(|e| Error::retryable(format!("no runtime for requests: {e}")))?;
        Ok(Self { runtime: Some(runtime), client: Arc::new(HttpTransport::new(address, credentials.into(), limits)?) })
    }
    /// Sends a message. `then` gets the response on a thread of the box; it is not called if the box is dropped before.
    pub fn send(&self, post: HttpRequest, then: impl FnOnce(Result<HttpResponse, HttpFault>) + Send + 'static) {
        let client = self.client.clone();
        if let Some(runtime) = &self.runtime {
            runtime.spawn(async move { then(client.send(&post).await) });
        }
    }
}

impl Drop for CallbackClient {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
