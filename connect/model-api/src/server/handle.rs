//! Handles a request from its head to its response.

use super::guard;
use super::respond::{error_response, json, respond};
use super::route::{self, ModelApiRoute};
use super::settings::ModelApiSettings;
use super::state::ModelApiState;
use crate::apis;
use crate::error::ModelApiError;
use crate::handler::{Caller, ModelCard};
use crate::request::{ApiKind, ModelRequest};
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;
use serde_json::{Value, json as value};
use std::sync::Arc;
use trainyard_http_server::{BodyError, is_stalled, read_body};

/// Routes, admits and handles any request.
pub async fn handle(State(app): State<Arc<ModelApiState>>, request: Request) -> Response {
    let path = request.uri().path();
    let found = route::find(path);
    let api = found.as_ref().map_or(ApiKind::Chat, |(_, route)| route.api());
    let base = found.as_ref().map_or(path, |(base, _)| base.as_str()).to_string();
    let caller = Caller { base, key: guard::key(request.headers()) };
    let response = match found {
        Some((_, route)) => respond_to(&app, route, caller.clone(), request).await,
        None => Err(ModelApiError::new(404, format!("unknown path {path}"))),
    };
    response.unwrap_or_else(|refusal| {
        app.handler.record_refusal(&caller, &refusal);
        error_response(&refusal, api)
    })
}

/// Admits a request, reads its body and responds.
async fn respond_to(
    app: &Arc<ModelApiState>,
    route: ModelApiRoute,
    caller: Caller,
    request: Request,
) -> Result<Response, ModelApiError> {
    if route != ModelApiRoute::Health {
        admit(app, &caller, &request)?;
    }
    let method = if route.takes_body() { Method::POST } else { Method::GET };
    if request.method() != method {
        return Err(ModelApiError::new(405, format!("this path requires {method}, not {}", request.method())));
    }
    let body = if route.takes_body() { body(app, request).await? } else { Value::Null };
    dispatch(app, route, caller, &body).await
}

/// Checks the key, host and origin of a request.
fn admit(app: &ModelApiState, caller: &Caller, request: &Request) -> Result<(), ModelApiError> {
    let ModelApiSettings { key, handler_has_keys, .. } = &app.settings;
    let handler_key = if *handler_has_keys { app.handler.key(&caller.base) } else { None };
    let protected = *handler_has_keys || key.is_some();
    guard::admit(request.headers(), request.uri(), protected, handler_key.as_ref().or(key.as_ref()))
}

async fn dispatch(
    app: &Arc<ModelApiState>,
    route: ModelApiRoute,
    caller: Caller,
    body: &Value,
) -> Result<Response, ModelApiError> {
    match route {
        ModelApiRoute::Health => Ok(json(value!({"status": "ok"}))),
        ModelApiRoute::Models => {
            let cards = app.handler.models(&caller)?;
            let list: Vec<Value> = cards.iter().map(listed).collect();
            let ends = [cards.first(), cards.last()].map(|card| card.map(|card| card.name.clone()));
            let [first, last] = ends;
            Ok(json(value!({
                "object": "list", "data": list, "has_more": false, "first_id": first, "last_id": last,
            })))
        }
        ModelApiRoute::Model(name) => {
            let cards = app.handler.models(&caller)?;
            Ok(json(listed(&card(app, cards, &name)?)))
        }
        ModelApiRoute::Tokenize => {
            let text = body["prompt"]
                .as_str()
                .ok_or_else(|| ModelApiError::invalid_field("prompt", "`prompt` must be a text"))?;
            let ids = app.handler.tokenize(&caller, text)?;
            let positions = app.handler.models(&caller)?.first().and_then(|card| card.positions);
            Ok(json(value!({"count": ids.len(), "tokens": ids, "max_model_len": positions})))
        }
        ModelApiRoute::Count => {
            let mut model_request = apis::read_count(body)?;
            name_model(app, &caller, &mut model_request)?;
            Ok(json(value!({"input_tokens": app.handler.count_tokens(&caller, &model_request)?})))
        }
        ModelApiRoute::Ask(api) => {
            let past = |id: &str| app.conversations.find(&caller.base, id);
            let mut model_request = apis::read(api, body, &past)?;
            name_model(app, &caller, &mut model_request)?;
            Ok(respond(app, model_request, caller).await)
        }
    }
}

/// Checks the model name of a request, and sets it if there is only one model and the request names none.
///
/// Errors: a missing name, or a model that is not served.
fn name_model(app: &ModelApiState, caller: &Caller, model_request: &mut ModelRequest) -> Result<(), ModelApiError> {
    let cards = app.handler.models(caller)?;
    match (model_request.model.as_str(), cards.as_slice()) {
        ("", [only]) => model_request.model = only.name.clone(),
        ("", _) => return Err(ModelApiError::invalid_field("model", "`model` is missing")),
        (_, [_]) if app.handler.accepts_any_model() => {}
        (name, cards) if cards.iter().all(|card| card.name != name) => {
            return Err(ModelApiError::model_not_found(name, &names(cards)));
        }
        _ => {}
    }
    Ok(())
}

/// Returns the card of a model by a name that requests may use. Errors: a model that is not served.
fn card(app: &ModelApiState, cards: Vec<ModelCard>, name: &str) -> Result<ModelCard, ModelApiError> {
    if let Some(card) = cards.iter().find(|card| card.name == name) {
        return Ok(card.clone());
    }
    match <[ModelCard; 1]>::try_from(cards) {
        Ok([only]) if app.handler.accepts_any_model() => Ok(ModelCard { name: name.to_string(), ..only }),
        Ok(cards) => Err(ModelApiError::model_not_found(name, &names(&cards))),
        Err(cards) => Err(ModelApiError::model_not_found(name, &names(&cards))),
    }
}

fn names(cards: &[ModelCard]) -> Vec<String> {
    cards.iter().map(|card| card.name.clone()).collect()
}

/// Returns the entry of a model, with the fields of OpenAI's and Anthropic's API and those of vLLM.
fn listed(card: &ModelCard) -> Value {
    value!({
        "id": card.name, "object": "model", "created": 0, "owned_by": "trainyard", "root": card.name, "parent": null,
        "max_model_len": card.positions, "type": "model", "display_name": card.name,
    })
}

async fn body(app: &ModelApiState, request: Request) -> Result<Value, ModelApiError> {
    let ModelApiSettings { max_body_bytes: max_bytes, body_timeout: timeout, .. } = app.settings;
    let bytes = read_body(request.into_body(), max_bytes, timeout).await.map_err(|fault| match fault {
        BodyError::TooLarge => ModelApiError::new(413, format!("the body has more than {max_bytes} bytes; send less")),
        BodyError::Late => ModelApiError::new(408, format!("the body did not arrive within {} s", timeout.as_secs())),
        BodyError::Broken(error) => {
            let status = if is_stalled(&error) { 408 } else { 400 };
            ModelApiError::new(status, format!("cannot read the body: {error}"))
        }
    })?;
    serde_json::from_slice(&bytes)
        .map_err(|error| ModelApiError::new(400, format!("the body is not valid JSON: {error}")))
}
