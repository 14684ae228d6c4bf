//! Authorization, before any handler receives a request.
//!
//! With tokens, every path but `/health` requires one. Without, the server is bound to loopback, and a request must
//! also name this machine in `Host`, which a web page whose domain resolves to 127.0.0.1 does not. A page of another
//! origin cannot change anything, since a change requires a JSON body, for which a browser sends a preflight request
//! that is denied.

use super::error::ApiError;
use super::state::ApiState;
use super::tokens::Role;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Sender of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSender(pub String);

/// Path that requires no token, for health checks.
pub const HEALTH: &str = "/api/v1/health";

/// Passes a request on or rejects it.
pub async fn guard(State(app): State<Arc<ApiState>>, mut request: Request, next: Next) -> Response {
    match admitted(&app, &request) {
        Ok(sender) => {
            request.extensions_mut().insert(sender);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

fn admitted(app: &ApiState, request: &Request) -> Result<RequestSender, ApiError> {
    if app.tokens.is_empty() {
        require_loopback(request)?;
        require_own_origin(request.headers())?;
        return Ok(RequestSender("api:local".to_string()));
    }
    if request.uri().path() == HEALTH {
        return Ok(RequestSender("api:anybody".to_string()));
    }
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(|text| text.strip_prefix("Bearer "));
    let holder = token.and_then(|token| app.tokens.holder(token.trim()));
    let Some((role, name)) = holder else {
        let help = "send `Authorization: Bearer TOKEN` with a token of the server's token file".to_string();
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", "no valid token", Some(help)));
    };
    if role < needed(request.method()) {
        let help = "this takes a token with the role operator".to_string();
        let message = format!("{name} may only look");
        return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message, Some(help)));
    }
    Ok(RequestSender(format!("api:{name}")))
}

/// Returns the role that a method requires.
pub fn needed(method: &Method) -> Role {
    if method.is_safe() { Role::Viewer } else { Role::Operator }
}

fn require_loopback(request: &Request) -> Result<(), ApiError> {
    let host = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    let host = host.or_else(|| request.uri().host()).unwrap_or("");
    if is_this_machine(host) {
        return Ok(());
    }
    let help = "use http://127.0.0.1, or start the server with `--token-file`".to_string();
    Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", "the request names another host", Some(help)))
}

/// Rejects pages of another origin, which the browser's headers reveal.
fn require_own_origin(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(origin) = headers.get(header::ORIGIN).and_then(|value| value.to_str().ok()) else { return Ok(()) };
    let host = origin.split_once("://").map_or("", |(_, host)| host);
    if is_this_machine(host) {
        return Ok(());
    }
    Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", "the request comes from a page of another origin", None))
}

/// Whether the host is `localhost`, `127.0.0.1` or `[::1]`, with or without a port.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        for host in ["localhost", "localhost:8675", "127.0.0.1:1", "[::1]", "[::1]:8675"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "127.0.0.1:x", "::1"] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
