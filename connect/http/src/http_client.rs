//! Requests from synchronous threads to asynchronous ones.

use crate::base_url::BaseUrl;
use crate::fault::{DeliveryStatus, HttpFault};
use crate::transport::{HttpTransport, JsonRequest, RequestLimits};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;
use trainyard_core::{Error, Result, Secret};

/// Id of a request in flight; ids are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HttpRequestId(u64);

type ResponseResult = Result<Value, HttpFault>;

/// Sends requests to one service on separate threads. Requests in flight are cancelled when it is dropped.
pub struct HttpClient {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    client: Arc<HttpTransport>,
    sender: Sender<(HttpRequestId, ResponseResult)>,
    receiver: Receiver<(HttpRequestId, ResponseResult)>,
    in_flight: BTreeMap<HttpRequestId, AbortHandle>,
    next: u64,
}

impl HttpClient {
    /// Creates the desk without sending a request. `key` is the bearer token of every request.
    pub fn open(address: BaseUrl, key: Option<Secret>, limits: RequestLimits) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("http").enable_all().build();
        let runtime = runtime.map_err(|e| Error::retryable(format!("no runtime for requests: {e}")))?;
        let (sender, receiver) = channel();
        let client = Arc::new(HttpTransport::new(address, key.into(), limits)?);
        Ok(Self { runtime: Some(runtime), client, sender, receiver, in_flight: BTreeMap::new(), next: 0 })
    }
    /// Sends a request and waits for its response.
    pub fn request(&self, call: JsonRequest) -> ResponseResult {
        let mut answers = self.request_all(vec![call]);
        answers.pop().unwrap_or_else(|| Err(no_response()))
    }
    /// Sends requests together and waits for all responses, which are in the same order.
    pub fn request_all(&self, calls: Vec<JsonRequest>) -> Vec<ResponseResult> {
        let (sender, receiver) = channel();
        let count = calls.len();
        for (number, call) in calls.into_iter().enumerate() {
            let (client, sender) = (self.client.clone(), sender.clone());
            self.spawn(async move {
                sender.send((number, client.send_json(&call).await)).ok();
            });
        }
        drop(sender);
        let mut answers: Vec<ResponseResult> = (0..count).map(|_| Err(no_response())).collect();
        for (number, answer) in receiver {
            answers[number] = answer;
        }
        answers
    }
    /// Sends a request whose response [`HttpClient::next`] returns. `held` is dropped when the request is over.
    pub fn send(&mut self, call: JsonRequest, held: impl Send + 'static) -> HttpRequestId {
        let ticket = HttpRequestId(self.next);
        self.next += 1;
        let (client, sender) = (self.client.clone(), self.sender.clone());
        let handle = self.spawn(async move {
            let answer = client.send_json(&call).await;
            drop(held);
            // The receiver is gone if the desk is being dropped.
            sender.send((ticket, answer)).ok();
        });
        if let Some(handle) = handle {
            self.in_flight.insert(ticket, handle);
        }
        ticket
    }
    /// Returns the next response to a sent request, in the order of arrival, or `None` after `wait`.
    pub fn next(&mut self, wait: Duration) -> Option<(HttpRequestId, ResponseResult)> {
        let (ticket, answer) = self.receiver.recv_timeout(wait).ok()?;
        self.in_flight.remove(&ticket);
        Some((ticket, answer))
    }
    /// Cancels a request. Its response may have arrived already.
    pub fn cancel(&mut self, ticket: HttpRequestId) {
        if let Some(handle) = self.in_flight.remove(&ticket) {
            handle.abort();
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Option<AbortHandle> {
        self.runtime.as_ref().map(|runtime| runtime.spawn(task).abort_handle())
    }
}

impl Drop for HttpClient {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn no_response() -> HttpFault {
    HttpFault {
        status: None,
        delivery: DeliveryStatus::MaybeProcessed,
        error: Error::bug("a request ended without an answer"),
    }
}
