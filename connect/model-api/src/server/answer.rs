//! Sending of one answer to the client.

use super::app::App;
use crate::answered::Answered;
use crate::asked::{Asked, Form};
use crate::desk::{Caller, Question, Reply, Told};
use crate::forms::{self, Event, Stamp, Stream};
use crate::refusal::Refusal;
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
struct Exchange {
    app: Arc<App>,
    asked: Asked,
    base: String,
    stamp: Stamp,
    began: Duration,
    told: UnboundedReceiver<Told>,
}

/// Passes the request to the desk and returns the response.
pub async fn answer(app: &Arc<App>, asked: Asked, caller: Caller) -> Response {
    let stamp = app.stamp(asked.form);
    let (reply, told) = Reply::new();
    let (app, began, base) = (app.clone(), app.settings.clock.monotonic(), caller.base.clone());
    let exchange = Exchange { app, asked: asked.clone(), base, stamp, began, told };
    exchange.app.desk.ask(Question { asked, caller, reply });
    if exchange.asked.stream { exchange.streamed().await } else { exchange.whole().await }
}

/// Returns the response of a refusal.
pub fn refused(refusal: &Refusal, form: Form) -> Response {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, axum::Json(refusal.body(form))).into_response()
}

impl Exchange {
    async fn next(&mut self) -> Told {
        let lost = || Told::Refused(Refusal::new(500, "whoever was to answer has stopped; see the log of the server"));
        self.told.recv().await.unwrap_or_else(lost)
    }
    async fn whole(mut self) -> Response {
        loop {
            match self.next().await {
                Told::Piece(_) => {}
                Told::Refused(refusal) => return self.refuse(&refusal),
                Told::Done(answered) => {
                    self.note(&answered);
                    return axum::Json(forms::write(&self.asked, &answered, &self.stamp)).into_response();
                }
            }
        }
    }
    /// Streams the answer. A request that is refused before its first event gets the status of the refusal.
    async fn streamed(mut self) -> Response {
        let first = self.next().await;
        if let Told::Refused(refusal) = &first {
            return self.refuse(refusal);
        }
        let mut writer = forms::stream(&self.asked, &self.stamp);
        let events = text(&writer.begin());
        let state = Streaming { exchange: self, writer, first: Some(first), pieces: false, over: false };
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
    fn refuse(&self, refusal: &Refusal) -> Response {
        tracing::info!(form = ?self.asked.form, status = refusal.status, message = refusal.message, "refused");
        refused(refusal, self.asked.form)
    }
    /// Keeps the conversation for a later request, and writes the log line.
    fn note(&self, answered: &Answered) {
        if self.asked.form == Form::Responses && self.asked.store {
            let before = self.asked.messages().iter().skip(usize::from(self.asked.instructions)).cloned();
            let said = answered.choices.first().map(|choice| choice.message());
            self.app.kept.keep(&self.base, &self.stamp.id, before.chain(said).collect());
        }
        let took = self.app.settings.clock.monotonic().saturating_sub(self.began);
        tracing::info!(
            form = ?self.asked.form,
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
struct Streaming {
    exchange: Exchange,
    writer: Box<dyn Stream>,
    first: Option<Told>,
    pieces: bool,
    over: bool,
}

impl Streaming {
    async fn advance(&mut self) -> Vec<Event> {
        let told = match self.first.take() {
            Some(told) => told,
            None => self.exchange.next().await,
        };
        match told {
            Told::Piece(piece) => {
                self.pieces = true;
                self.writer.piece(&piece)
            }
            Told::Refused(refusal) => {
                self.over = true;
                tracing::warn!(message = refusal.message, "an answer came to nothing in the middle");
                self.writer.fail(&refusal)
            }
            Told::Done(answered) => {
                self.over = true;
                self.exchange.note(&answered);
                let choices = answered.choices.iter().enumerate();
                let untold = choices.filter(|_| !self.pieces).map(|(i, choice)| choice.whole(i));
                let mut events: Vec<Event> = untold.flat_map(|piece| self.writer.piece(&piece)).collect();
                events.extend(self.writer.end(&answered));
                events
            }
        }
    }
}

fn text(events: &[Event]) -> Bytes {
    Bytes::from(events.iter().map(Event::text).collect::<String>())
}

/// Returns a JSON response.
pub fn json(value: Value) -> Response {
    axum::Json(value).into_response()
}
