//! Sending of one answer to the client.

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

/// A request that was passed to the desk.
struct RequestExchange {
    app: Arc<ModelApiState>,
    asked: ModelRequest,
    base: String,
    stamp: ResponseIdentity,
    began: Duration,
    events: UnboundedReceiver<ResponseEvent>,
}

/// Passes the request to the desk and returns the response.
pub async fn respond(app: &Arc<ModelApiState>, asked: ModelRequest, caller: Caller) -> Response {
    let stamp = app.next_identity(asked.api);
    let (reply, told) = ResponseSender::new();
    let (app, began, base) = (app.clone(), app.settings.clock.monotonic(), caller.base.clone());
    let exchange = RequestExchange { app, asked: asked.clone(), base, stamp, began, events: told };
    exchange.app.handler.handle(PendingRequest { request: asked, caller, reply });
    if exchange.asked.stream { exchange.streamed().await } else { exchange.whole().await }
}

/// Returns the response of a refusal.
pub fn error_response(refusal: &ModelApiError, form: ApiKind) -> Response {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, axum::Json(refusal.body(form))).into_response()
}

impl RequestExchange {
    async fn next(&mut self) -> ResponseEvent {
        let lost = || {
            ResponseEvent::Failed(ModelApiError::new(
                500,
                "whoever was to answer has stopped; see the log of the server",
            ))
        };
        self.events.recv().await.unwrap_or_else(lost)
    }
    async fn whole(mut self) -> Response {
        loop {
            match self.next().await {
                ResponseEvent::Delta(_) => {}
                ResponseEvent::Failed(refusal) => return self.refuse(&refusal),
                ResponseEvent::Done(answered) => {
                    self.log_response(&answered);
                    return axum::Json(apis::write(&self.asked, &answered, &self.stamp)).into_response();
                }
            }
        }
    }
    /// Streams the answer. A request that is refused before its first event gets the status of the refusal.
    async fn streamed(mut self) -> Response {
        let first = self.next().await;
        if let ResponseEvent::Failed(refusal) = &first {
            return self.refuse(refusal);
        }
        let mut writer = apis::stream(&self.asked, &self.stamp);
        let events = text(&writer.begin());
        let state = ResponseStream { exchange: self, writer, first: Some(first), pieces: false, over: false };
        let rest = futures::stream::unfold(state, |mut state| async move {
            if state.over {
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
        tracing::info!(form = ?self.asked.api, status = refusal.status, message = refusal.message, "refused");
        error_response(refusal, self.asked.api)
    }
    /// Keeps the conversation for a later request, and writes the log line.
    fn log_response(&self, answered: &ModelResponse) {
        if self.asked.api == ApiKind::Responses && self.asked.store {
            let before = self.asked.messages().iter().skip(usize::from(self.asked.instructions)).cloned();
            let said = answered.choices.first().map(|choice| choice.message());
            self.app.conversations.insert(&self.base, &self.stamp.id, before.chain(said).collect());
        }
        let took = self.app.settings.clock.monotonic().saturating_sub(self.began);
        tracing::info!(
            form = ?self.asked.api,
            base = self.base,
            model = self.asked.model,
            prompt = answered.usage.prompt,
            sampled = answered.usage.sampled,
            milliseconds = took.as_millis() as u64,
            "answered"
        );
    }
}

/// The rest of a streamed answer.
struct ResponseStream {
    exchange: RequestExchange,
    writer: Box<dyn StreamWriter>,
    first: Option<ResponseEvent>,
    pieces: bool,
    over: bool,
}

impl ResponseStream {
    async fn advance(&mut self) -> Vec<ServerSentEvent> {
        let told = match self.first.take() {
            Some(told) => told,
            None => self.exchange.next().await,
        };
        match told {
            ResponseEvent::Delta(piece) => {
                self.pieces = true;
                self.writer.write_delta(&piece)
            }
            ResponseEvent::Failed(refusal) => {
                self.over = true;
                tracing::warn!(message = refusal.message, "an answer came to nothing in the middle");
                self.writer.fail(&refusal)
            }
            ResponseEvent::Done(answered) => {
                self.over = true;
                self.exchange.log_response(&answered);
                let choices = answered.choices.iter().enumerate();
                let untold = choices.filter(|_| !self.pieces).map(|(i, choice)| choice.to_delta(i));
                let mut events: Vec<ServerSentEvent> =
                    untold.flat_map(|piece| self.writer.write_delta(&piece)).collect();
                events.extend(self.writer.end(&answered));
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
