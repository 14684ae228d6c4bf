//! Handling of a request from its head to its response.

use super::guard;
use super::respond::{error_response, json, respond};
use super::route::{self, ModelApiRoute};
use super::state::ModelApiState;
use crate::apis;
use crate::error::ModelApiError;
use crate::handler::{Caller, ModelCard};
use crate::request::{ApiKind, ModelRequest};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;
use futures::StreamExt as _;
use serde_json::{Value, json as value};
use std::sync::Arc;
use tokio::time::timeout;

/// Factor over the permitted size up to which a body is read before the connection is closed.
const OVERREAD_FACTOR: usize = 8;

/// Handles any request.
pub async fn handle(State(app): State<Arc<ModelApiState>>, request: Request) -> Response {
    let Some((base, route)) = route::find(request.uri().path()) else {
        let message = format!("there is no path {}", request.uri().path());
        return error_response(&ModelApiError::new(404, message), ApiKind::Chat);
    };
    let form = route.api();
    let asked = async {
        if route != ModelApiRoute::Health {
            guard::admit(request.headers(), app.settings.key.as_ref(), app.loopback)?;
        }
        let method = if route.takes_body() { Method::POST } else { Method::GET };
        if request.method() != method {
            return Err(ModelApiError::new(405, format!("this path takes {method}, not {}", request.method())));
        }
        let caller = Caller { base, key: guard::key(request.headers()) };
        let body = if route.takes_body() { body(&app, request).await? } else { Value::Null };
        Ok((caller, body))
    };
    match asked.await {
        Err(refusal) => error_response(&refusal, form),
        Ok((caller, body)) => {
            dispatch(&app, route, caller, &body).await.unwrap_or_else(|refusal| error_response(&refusal, form))
        }
    }
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
            let card = cards
                .iter()
                .find(|card| card.name == name)
                .ok_or_else(|| ModelApiError::model_not_found(&name, &names(&cards)))?;
            Ok(json(listed(card)))
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
            let mut asked = apis::read_count(body)?;
            name_model(app, &caller, &mut asked)?;
            Ok(json(value!({"input_tokens": app.handler.count_tokens(&caller, &asked)?})))
        }
        ModelApiRoute::Ask(form) => {
            let past = |id: &str| app.conversations.find(&caller.base, id);
            let mut asked = apis::read(form, body, &past)?;
            name_model(app, &caller, &mut asked)?;
            Ok(respond(app, asked, caller).await)
        }
    }
}

/// Sets the model of a request without one, if there is only one model.
fn name_model(app: &ModelApiState, caller: &Caller, asked: &mut ModelRequest) -> Result<(), ModelApiError> {
    let cards = app.handler.models(caller)?;
    match (asked.model.as_str(), cards.as_slice()) {
        ("", [only]) => asked.model = only.name.clone(),
        ("", _) => return Err(ModelApiError::invalid_field("model", "`model` is missing")),
        (_, [_]) if app.handler.accepts_any_model() => {}
        (name, cards) if cards.iter().all(|card| card.name != name) => {
            return Err(ModelApiError::model_not_found(name, &names(cards)));
        }
        _ => {}
    }
    Ok(())
}

fn names(cards: &[ModelCard]) -> Vec<String> {
    cards.iter().map(|card| card.name.clone()).collect()
}

/// Returns a model with the fields of both APIs and vLLM's.
fn listed(card: &ModelCard) -> Value {
    value!({
        "id": card.name, "object": "model", "created": 0, "owned_by": "trainyard", "root": card.name, "parent": null,
        "max_model_len": card.positions, "type": "model", "display_name": card.name,
    })
}

async fn body(app: &ModelApiState, request: Request) -> Result<Value, ModelApiError> {
    let bytes =
        match timeout(app.settings.body_timeout, collect(request.into_body(), app.settings.max_body_bytes)).await {
            Ok(collected) => collected?,
            Err(_) => {
                let message = format!("the body did not come within {} s", app.settings.body_timeout.as_secs());
                return Err(ModelApiError::new(408, message));
            }
        };
    serde_json::from_slice(&bytes).map_err(|error| ModelApiError::new(400, format!("the body is no JSON: {error}")))
}

/// Reads the bytes of a body. One that is somewhat too large is read to its end, so that the client receives the
/// response.
async fn collect(body: Body, most: usize) -> Result<Vec<u8>, ModelApiError> {
    let (mut stream, mut bytes, mut total) = (body.into_data_stream(), Vec::new(), 0_usize);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| ModelApiError::new(400, format!("the body broke off: {error}")))?;
        total = total.saturating_add(chunk.len());
        if total <= most {
            bytes.extend_from_slice(&chunk);
        } else if total > most.saturating_mul(OVERREAD_FACTOR) {
            break;
        }
    }
    if total > most {
        return Err(ModelApiError::new(413, format!("the body has more than {most} bytes; send less")));
    }
    Ok(bytes)
}
