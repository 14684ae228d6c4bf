//! Client for the HTTP services that stages depend on: JSON requests and responses, many at a time.
//!
//! A [`HttpClient`] (one thread sends) or a [`CallbackClient`] (many do) sends requests from synchronous threads,
//! retries those that may succeed later, limits time, size and number, and returns failures as an
//! [`Error`](trainyard_core::Error) of the right kind. It is independent of the service: the caller defines the meaning
//! of a request. Keys are used in headers only.
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
