//! Runs the HTTP server, with guarded routes, bounded bodies, and shutdown on interrupt.

use super::error::ApiError;
use super::guard::{guard, policy};
use super::openapi::ROOT;
use super::routes;
use super::state::ApiState;
use super::tokens::ApiTokens;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use trainyard_core::Result;
use trainyard_http_server::ServerLimits;
use trainyard_runtime::Interrupt;

/// Maximum bytes of a request's body.
const MAX_BYTES: usize = 64 * 1024;

/// Builds the router of all paths below `/api`. Other paths are left to a router that it is merged with.
pub fn router(app: Arc<ApiState>) -> Router {
    let mut router = Router::new();
    for route in routes::all() {
        router = router.route(&format!("{ROOT}{}", route.path), route.handler);
    }
    router
        .route(&format!("{ROOT}/"), get(routes::root))
        .method_not_allowed_fallback(no_such_method)
        .route("/api", any(no_such_path))
        .route("/api/", any(no_such_path))
        .route("/api/{*path}", any(no_such_path))
        .layer(from_fn_with_state(app.clone(), guard))
        .layer(DefaultBodyLimit::max(MAX_BYTES))
        .with_state(app)
}

/// Listens on an address. Errors: invalid (a network address without tokens, one that cannot be bound).
pub async fn bind(address: SocketAddr, tokens: &ApiTokens) -> Result<TcpListener> {
    trainyard_http_server::bind(address, &policy(tokens)).await
}

/// Serves a router until interrupted. `descriptors` is the limit on open files of this process, of which the daemon
/// keeps most.
pub async fn serve(listener: TcpListener, router: Router, descriptors: u64, interrupt: Interrupt) {
    let stop = async move { interrupt.beyond(0).await };
    let limits = ServerLimits::default().within_descriptors(descriptors);
    trainyard_http_server::serve(listener, router, limits, busy(), stop).await;
}

/// Returns the response body for a connection above the limit.
fn busy() -> String {
    let help = "try again in a second".to_string();
    let message = "too many connections are open";
    let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "retryable", message, Some(help));
    serde_json::to_string(&error.body).unwrap_or_default()
}

async fn no_such_path() -> ApiError {
    ApiError::not_found("there is no such path", "GET /api/v1/openapi.json lists all paths")
}

async fn no_such_method() -> ApiError {
    let help = "GET /api/v1/openapi.json lists all paths and methods".to_string();
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "invalid", "the path does not support this method", Some(help))
}
