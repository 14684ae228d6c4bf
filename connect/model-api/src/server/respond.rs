//! Sends one response to the client.

use super::state::ModelApiState;
use crate::apis::{self, ResponseIdentity, ServerSentEvent, StreamWriter};
use crate::error::ModelApiError;
use crate::handler::{Caller, PendingRequest, ResponseEvent, ResponseSender};
use crate::request::{ApiKind, ModelRequest};
use crate::response::ModelResponse;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use serde_json::Value;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// A request that was passed to the handler.
struct RequestExchange {
    app: Arc<ModelApiState>,
    request: ModelRequest,
    base: String,
    identity: ResponseIdentity,
    started: Duration,
    events: UnboundedReceiver<ResponseEvent>,
}

/// Passes the request to the handler, and returns the complete or streamed response.
pub async fn respond(app: &Arc<ModelApiState>, request: ModelRequest, caller: Caller) -> Response {
    let identity = app.next_identity(request.api);
    let (reply, events) = ResponseSender::new();
    let (app, started, base) = (app.clone(), app.settings.clock.monotonic(), caller.base.clone());
    let exchange = RequestExchange { app, request: request.clone(), base, identity, started, events };
    exchange.app.handler.handle(PendingRequest { request, caller, reply });
    if exchange.request.stream { exchange.streamed().await } else { exchange.whole().await }
}

/// Returns the response of a refusal in the format of `api`.
pub fn error_response(refusal: &ModelApiError, api: ApiKind) -> Response {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, axum::Json(refusal.body(api))).into_response()
}

impl RequestExchange {
    async fn next(&mut self) -> ResponseEvent {
        let lost = || {
            ResponseEvent::Failed(ModelApiError::new(
                500,
                "the handler stopped without a response; see the log of the server",
            ))
        };
        self.events.recv().await.unwrap_or_else(lost)
    }
    async fn whole(mut self) -> Response {
        loop {
            match self.next().await {
                ResponseEvent::Delta(_) => {}
                ResponseEvent::Failed(refusal) => return self.refuse(&refusal),
                ResponseEvent::Done(response) => {
                    self.log_response(&response);
                    return axum::Json(apis::write(&self.request, &response, &self.identity)).into_response();
                }
            }
        }
    }
    /// Streams the response. A request that is refused before its first event gets the status of the refusal.
    async fn streamed(mut self) -> Response {
        let first = self.next().await;
        if let ResponseEvent::Failed(refusal) = &first {
            return self.refuse(refusal);
        }
        let mut writer = apis::stream(&self.request, &self.identity);
        let events = text(&writer.begin());
        let state = ResponseStream { exchange: self, writer, first: Some(first), has_deltas: false, ended: false };
        let rest = futures::stream::unfold(state, |mut state| async move {
            if state.ended {
                return None;
            }
            let events = state.advance().await;
            Some((Ok::<Bytes, Infallible>(text(&events)), state))
        });
        let begin = futures::stream::once(async move { Ok::<Bytes, Infallible>(events) });
        let body = Body::from_stream(futures::StreamExt::chain(begin, rest));
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
        (headers, body).into_response()
    }
    fn refuse(&self, refusal: &ModelApiError) -> Response {
        tracing::info!(form = ?self.request.api, status = refusal.status, message = refusal.message, "refused");
        error_response(refusal, self.request.api)
    }
    /// Stores the conversation for a continuing request, if requested, and writes the log line.
    fn log_response(&self, response: &ModelResponse) {
        if self.request.api == ApiKind::Responses && self.request.store {
            let before = self.request.messages().iter().skip(usize::from(self.request.instructions)).cloned();
            let message = response.choices.first().map(|choice| choice.message());
            self.app.conversations.insert(&self.base, &self.identity.id, before.chain(message).collect());
        }
        let took = self.app.settings.clock.monotonic().saturating_sub(self.started);
        tracing::info!(
            form = ?self.request.api,
            base = self.base,
            model = self.request.model,
            prompt = response.usage.prompt,
            sampled = response.usage.sampled,
            milliseconds = took.as_millis() as u64,
            "answered"
        );
    }
}

/// State of a streamed response after its first event.
struct ResponseStream {
    exchange: RequestExchange,
    writer: Box<dyn StreamWriter>,
    first: Option<ResponseEvent>,
    has_deltas: bool,
    ended: bool,
}

impl ResponseStream {
    async fn advance(&mut self) -> Vec<ServerSentEvent> {
        let event = match self.first.take() {
            Some(event) => event,
            None => self.exchange.next().await,
        };
        match event {
            ResponseEvent::Delta(delta) => {
                self.has_deltas = true;
                self.writer.write_delta(&delta)
            }
            ResponseEvent::Failed(refusal) => {
                self.ended = true;
                tracing::warn!(message = refusal.message, "a stream failed before its end");
                self.writer.fail(&refusal)
            }
            ResponseEvent::Done(response) => {
                self.ended = true;
                self.exchange.log_response(&response);
                let choices = response.choices.iter().enumerate();
                let missing = choices.filter(|_| !self.has_deltas).map(|(i, choice)| choice.to_delta(i));
                let mut events: Vec<ServerSentEvent> =
                    missing.flat_map(|delta| self.writer.write_delta(&delta)).collect();
                events.extend(self.writer.end(&response));
                events
            }
        }
    }
}

fn text(events: &[ServerSentEvent]) -> Bytes {
    Bytes::from(events.iter().map(ServerSentEvent::text).collect::<String>())
}

/// Returns a JSON response.
pub fn json(value: Value) -> Response {
    axum::Json(value).into_response()
}
