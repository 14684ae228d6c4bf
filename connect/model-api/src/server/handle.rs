//! Handling of a request from its head to its response.

use super::answer::{answer, json, refused};
use super::app::App;
use super::guard;
use super::route::{self, Route};
use super::settings::Settings;
use crate::asked::{Asked, Form};
use crate::desk::{Caller, Card};
use crate::forms;
use crate::refusal::Refusal;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;
use serde_json::{Value, json as value};
use std::sync::Arc;
use trainyard_http_server::{BodyFault, is_stalled, read_body};

/// Handles any request.
pub async fn handle(State(app): State<Arc<App>>, request: Request) -> Response {
    let Some((base, route)) = route::find(request.uri().path()) else {
        let message = format!("there is no path {}", request.uri().path());
        return refused(&Refusal::new(404, message), Form::Chat);
    };
    let form = route.form();
    let asked = async {
        if route != Route::Health {
            guard::admit(request.headers(), request.uri(), app.settings.key.as_ref())?;
        }
        let method = if route.takes_body() { Method::POST } else { Method::GET };
        if request.method() != method {
            return Err(Refusal::new(405, format!("this path takes {method}, not {}", request.method())));
        }
        let caller = Caller { base, key: guard::key(request.headers()) };
        let body = if route.takes_body() { body(&app, request).await? } else { Value::Null };
        Ok((caller, body))
    };
    match asked.await {
        Err(refusal) => refused(&refusal, form),
        Ok((caller, body)) => work(&app, route, caller, &body).await.unwrap_or_else(|refusal| refused(&refusal, form)),
    }
}

async fn work(app: &Arc<App>, route: Route, caller: Caller, body: &Value) -> Result<Response, Refusal> {
    match route {
        Route::Health => Ok(json(value!({"status": "ok"}))),
        Route::Models => {
            let cards = app.desk.models(&caller)?;
            let list: Vec<Value> = cards.iter().map(listed).collect();
            let ends = [cards.first(), cards.last()].map(|card| card.map(|card| card.name.clone()));
            let [first, last] = ends;
            Ok(json(value!({
                "object": "list", "data": list, "has_more": false, "first_id": first, "last_id": last,
            })))
        }
        Route::Model(name) => {
            let cards = app.desk.models(&caller)?;
            let card =
                cards.iter().find(|card| card.name == name).ok_or_else(|| Refusal::no_model(&name, &names(&cards)))?;
            Ok(json(listed(card)))
        }
        Route::Tokenize => {
            let text = body["prompt"].as_str().ok_or_else(|| Refusal::field("prompt", "`prompt` must be a text"))?;
            let ids = app.desk.tokenize(&caller, text)?;
            let positions = app.desk.models(&caller)?.first().and_then(|card| card.positions);
            Ok(json(value!({"count": ids.len(), "tokens": ids, "max_model_len": positions})))
        }
        Route::Count => {
            let mut asked = forms::read_count(body)?;
            name_model(app, &caller, &mut asked)?;
            Ok(json(value!({"input_tokens": app.desk.count(&caller, &asked)?})))
        }
        Route::Ask(form) => {
            let past = |id: &str| app.kept.find(&caller.base, id);
            let mut asked = forms::read(form, body, &past)?;
            name_model(app, &caller, &mut asked)?;
            Ok(answer(app, asked, caller).await)
        }
    }
}

/// Sets the model of a request without one, if there is only one model.
fn name_model(app: &App, caller: &Caller, asked: &mut Asked) -> Result<(), Refusal> {
    let cards = app.desk.models(caller)?;
    match (asked.model.as_str(), cards.as_slice()) {
        ("", [only]) => asked.model = only.name.clone(),
        ("", _) => return Err(Refusal::field("model", "`model` is missing")),
        (_, [_]) if app.desk.any_name() => {}
        (name, cards) if cards.iter().all(|card| card.name != name) => {
            return Err(Refusal::no_model(name, &names(cards)));
        }
        _ => {}
    }
    Ok(())
}

fn names(cards: &[Card]) -> Vec<String> {
    cards.iter().map(|card| card.name.clone()).collect()
}

/// Returns a model with the fields of both APIs and vLLM's.
fn listed(card: &Card) -> Value {
    value!({
        "id": card.name, "object": "model", "created": 0, "owned_by": "trainyard", "root": card.name, "parent": null,
        "max_model_len": card.positions, "type": "model", "display_name": card.name,
    })
}

async fn body(app: &App, request: Request) -> Result<Value, Refusal> {
    let Settings { body: most, patience, .. } = app.settings;
    let bytes = read_body(request.into_body(), most, patience).await.map_err(|fault| match fault {
        BodyFault::TooLarge => Refusal::new(413, format!("the body has more than {most} bytes; send less")),
        BodyFault::Late => Refusal::new(408, format!("the body did not come within {} s", patience.as_secs())),
        BodyFault::Broken(error) => {
            let status = if is_stalled(&error) { 408 } else { 400 };
            Refusal::new(status, format!("the body broke off: {error}"))
        }
    })?;
    serde_json::from_slice(&bytes).map_err(|error| Refusal::new(400, format!("the body is no JSON: {error}")))
}
