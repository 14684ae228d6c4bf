//! Sends requests from synchronous threads through an asynchronous transport.

use crate::background::Background;
use crate::base_url::BaseUrl;
use crate::fault::{DeliveryStatus, HttpFault};
use crate::transport::{HttpTransport, JsonRequest, RequestLimits};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tokio::task::AbortHandle;
use trainyard_core::{Error, Result, Secret};

/// Id of a request in flight; ids are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HttpRequestId(u64);

type ResponseResult = Result<Value, HttpFault>;

/// Client that sends requests to one service on a separate thread. Dropping the client cancels the requests in flight.
pub struct HttpClient {
    background: Background,
    client: Arc<HttpTransport>,
    sender: Sender<(HttpRequestId, ResponseResult)>,
    receiver: Receiver<(HttpRequestId, ResponseResult)>,
    in_flight: BTreeMap<HttpRequestId, AbortHandle>,
    next: u64,
}

impl HttpClient {
    /// Creates the client without sending a request. `key` is the bearer token of every request; `None` sends no
    /// credentials.
    ///
    /// Errors: invalid (a header), retryable (the thread cannot be started).
    pub fn open(address: BaseUrl, key: Option<Secret>, limits: RequestLimits) -> Result<Self> {
        let background = Background::start()?;
        let (sender, receiver) = channel();
        let client = Arc::new(HttpTransport::new(address, key.into(), limits)?);
        Ok(Self { background, client, sender, receiver, in_flight: BTreeMap::new(), next: 0 })
    }
    /// Sends a request and blocks until its response. The response does not pass through [`HttpClient::next`].
    pub fn request(&self, request: JsonRequest) -> ResponseResult {
        self.start(request).recv().unwrap_or_else(|_| Err(no_response()))
    }
    /// Sends requests together, blocks until all responses, and returns them in the order of the requests.
    pub fn request_all(&self, requests: Vec<JsonRequest>) -> Vec<ResponseResult> {
        let started: Vec<_> = requests.into_iter().map(|request| self.start(request)).collect();
        started.into_iter().map(|response| response.recv().unwrap_or_else(|_| Err(no_response()))).collect()
    }
    /// Sends a request whose response [`HttpClient::next`] returns. `guard` is dropped when the request ends or is
    /// cancelled.
    pub fn send(&mut self, request: JsonRequest, guard: impl Send + 'static) -> HttpRequestId {
        let id = HttpRequestId(self.next);
        self.next += 1;
        let (client, sender) = (self.client.clone(), self.sender.clone());
        let handle = self.background.spawn(async move {
            let response = client.send_json(&request).await;
            drop(guard);
            // The receiver no longer exists while the client is dropped.
            sender.send((id, response)).ok();
        });
        if let Some(handle) = handle {
            self.in_flight.insert(id, handle);
        }
        id
    }
    /// Returns the next response to a request of [`HttpClient::send`], in the order of arrival, or `None` if no
    /// response arrives within `wait`.
    pub fn next(&mut self, wait: Duration) -> Option<(HttpRequestId, ResponseResult)> {
        let (id, response) = self.receiver.recv_timeout(wait).ok()?;
        self.in_flight.remove(&id);
        Some((id, response))
    }
    /// Cancels a request. [`HttpClient::next`] may still return its response if it has already arrived.
    pub fn cancel(&mut self, id: HttpRequestId) {
        if let Some(handle) = self.in_flight.remove(&id) {
            handle.abort();
        }
    }

    fn start(&self, request: JsonRequest) -> oneshot::Receiver<ResponseResult> {
        let (sender, receiver) = oneshot::channel();
        let client = self.client.clone();
        self.background.spawn(async move {
            sender.send(client.send_json(&request).await).ok();
        });
        receiver
    }
}

fn no_response() -> HttpFault {
    HttpFault {
        status: None,
        delivery: DeliveryStatus::MaybeProcessed,
        error: Error::bug("a request ended without a response"),
    }
}
