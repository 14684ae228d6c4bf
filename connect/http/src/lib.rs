//! Sends JSON requests to the HTTP services that stages depend on, many at a time.
//!
//! An [`HttpClient`], owned by one thread, and a [`CallbackClient`], shared by several threads, send requests from
//! synchronous code. They retry requests that may succeed later, limit time, size and concurrency, and return failures
//! as an [`Error`](trainyard_core::Error) of the kind that decides about retries. They do not depend on the service:
//! the caller defines the meaning of a request. Keys appear in headers only.
mod background;
mod base_url;
mod callback_client;
mod fault;
mod http_client;
mod retry;
#[cfg(test)]
mod tests;
mod transport;

pub use base_url::BaseUrl;
pub use callback_client::CallbackClient;
pub use fault::{DeliveryStatus, HttpFault};
pub use http_client::{HttpClient, HttpRequestId};
pub use transport::{CompleteFn, Credentials, HttpRequest, HttpResponse, JsonRequest, RequestLimits};
