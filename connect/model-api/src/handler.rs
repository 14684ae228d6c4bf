//! Defines the interface between the server and the handler of its requests.

use crate::error::ModelApiError;
use crate::request::ModelRequest;
use crate::response::{ChoiceDelta, ModelResponse};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use trainyard_core::Secret;

/// Sender of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// Path before the API's own: empty for `/v1/chat/completions`, `/e/7` for `/e/7/v1/chat/completions`.
    pub base: String,
    /// Key of the request (`Authorization: Bearer` or `x-api-key`).
    pub key: Option<String>,
}

/// A model in the list of `/v1/models`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCard {
    /// Name in requests.
    pub name: String,
    /// Maximum tokens of a prompt with its response, if known.
    pub positions: Option<usize>,
}

/// Event of a handler during a response.
#[derive(Debug)]
pub enum ResponseEvent {
    /// A delta of one of the choices.
    Delta(ChoiceDelta),
    /// The end: the complete response, including the deltas that were sent before.
    Done(Box<ModelResponse>),
    /// The request failed.
    Failed(ModelApiError),
}

/// Sender of a response. It may be used from any thread and never blocks. If it is dropped before the end, the request
/// fails with status 500.
#[derive(Debug)]
pub struct ResponseSender(UnboundedSender<ResponseEvent>);

impl ResponseSender {
    /// Creates a sender and its receiver.
    pub fn new() -> (Self, UnboundedReceiver<ResponseEvent>) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), receiver)
    }
    /// Sends a delta. Optional: the server derives missing deltas of a stream from the complete response.
    pub fn send_delta(&self, delta: ChoiceDelta) {
        let _ = self.0.send(ResponseEvent::Delta(delta));
    }
    /// Ends the request with the complete response.
    pub fn finish(self, response: ModelResponse) {
        let _ = self.0.send(ResponseEvent::Done(Box::new(response)));
    }
    /// Ends the request with a refusal.
    pub fn fail(self, refusal: ModelApiError) {
        let _ = self.0.send(ResponseEvent::Failed(refusal));
    }
    /// Returns whether the client has disconnected.
    pub fn is_disconnected(&self) -> bool {
        self.0.is_closed()
    }
}

/// A request with the sender of its response.
#[derive(Debug)]
pub struct PendingRequest {
    pub request: ModelRequest,
    pub caller: Caller,
    /// Receives the response.
    pub reply: ResponseSender,
}

/// Handles requests to models. The server calls the methods on its threads, so they must not block for long.
pub trait ModelHandler: Send + Sync + 'static {
    /// Returns the models that `caller` may name. Errors: the caller has no valid key, or its episode has ended.
    fn models(&self, caller: &Caller) -> Result<Vec<ModelCard>, ModelApiError>;
    /// Returns whether requests may use any name when there is only one model.
    fn accepts_any_model(&self) -> bool {
        false
    }
    /// Returns the key that requests below the path `base` must have, or `None` if the path is unknown. The server asks
    /// only if its settings let the handler hold the keys.
    fn key(&self, _base: &str) -> Option<Secret> {
        None
    }
    /// Records a request that the server refused before [`ModelHandler::handle`]. For an unknown path, the base of
    /// `caller` is the whole path.
    fn record_refusal(&self, _caller: &Caller, _refusal: &ModelApiError) {}
    /// Takes a request. The handler may use its reply after this method returns.
    fn handle(&self, request: PendingRequest);
    /// Returns the token ids of a text, in which special tokens are parsed.
    fn tokenize(&self, _caller: &Caller, _text: &str) -> Result<Vec<u32>, ModelApiError> {
        Err(ModelApiError::new(404, "this server does not tokenize texts"))
    }
    /// Returns the number of tokens of a request's prompt.
    fn count_tokens(&self, _caller: &Caller, _request: &ModelRequest) -> Result<usize, ModelApiError> {
        Err(ModelApiError::new(404, "this server does not count tokens"))
    }
}
