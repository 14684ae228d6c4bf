//! Authorizes every request before a handler receives it.
//!
//! If the server has tokens, every path except `/health` requires a token. Without tokens (`--no-token`), the server is
//! bound to loopback, and the `Host` header of a request must name this machine; a web page whose domain resolves to
//! 127.0.0.1 sends another `Host`. A page of another origin cannot change anything: a change requires a JSON body, for
//! which browsers send a preflight request, which the server denies.

use super::error::ApiError;
use super::state::ApiState;
use super::tokens::{ApiTokens, Role};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use trainyard_http_server::{RequestDenial, RequestPolicy, admit};

/// Sender of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSender(pub String);

/// Path that requires no token, for health checks.
pub const HEALTH: &str = "/api/v1/health";

/// Passes a request to its handler with the [`RequestSender`] as an extension, or rejects the request.
pub async fn guard(State(app): State<Arc<ApiState>>, mut request: Request, next: Next) -> Response {
    match admitted(&app, &request) {
        Ok(sender) => {
            request.extensions_mut().insert(sender);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

/// Returns the authorization rules of a server with `tokens`.
pub fn policy(tokens: &ApiTokens) -> RequestPolicy {
    RequestPolicy {
        protected: !tokens.is_empty(),
        credential: "token",
        x_api_key: false,
        target_host: true,
        help_unprotected: "give `--token-file FILE`, or bind to 127.0.0.1",
        help_unbound: "give another address with `--bind`",
    }
}

fn admitted(app: &ApiState, request: &Request) -> Result<RequestSender, ApiError> {
    let policy = policy(&app.tokens);
    if policy.protected && request.uri().path() == HEALTH {
        return Ok(RequestSender("api:anybody".to_string()));
    }
    let find = |token: &str| app.tokens.holder(token);
    let Some((role, name)) = admit(&policy, request.headers(), request.uri(), find)? else {
        return Ok(RequestSender("api:local".to_string()));
    };
    if role < needed(request.method()) {
        let help = "use a token with the role `operator`".to_string();
        let message = format!("{name} has only read access");
        return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message, Some(help)));
    }
    Ok(RequestSender(format!("api:{name}")))
}

/// Returns the role that a method requires.
pub fn needed(method: &Method) -> Role {
    if method.is_safe() { Role::Viewer } else { Role::Operator }
}

impl From<RequestDenial> for ApiError {
    fn from(denial: RequestDenial) -> Self {
        let (status, kind, message, help) = match denial {
            RequestDenial::NoCredential => {
                let help = "send `Authorization: Bearer TOKEN` with a token of the server's token file; `serve` prints \
                            its path";
                (StatusCode::UNAUTHORIZED, "unauthorized", "no valid token", Some(help))
            }
            RequestDenial::OtherHost => {
                let help = "use http://127.0.0.1, or start the server without `--no-token`";
                (StatusCode::FORBIDDEN, "forbidden", "the request names another host", Some(help))
            }
            RequestDenial::OtherOrigin => {
                (StatusCode::FORBIDDEN, "forbidden", "the request comes from a page of another origin", None)
            }
        };
        Self::new(status, kind, message, help.map(String::from))
    }
}
