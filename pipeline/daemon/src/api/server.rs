//! The HTTP server: guarded routes, bounded bodies, and shutdown on interrupt.

use super::error::ApiError;
use super::guard::guard;
use super::openapi::ROOT;
use super::routes;
use super::state::ApiState;
use super::tokens::ApiTokens;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use trainyard_core::{Error, Result};
use trainyard_runtime::Interrupt;

/// Maximum bytes of a request's body.
const MOST_BYTES: usize = 64 * 1024;

/// Builds the router of all API routes.
pub fn router(app: Arc<ApiState>) -> Router {
    let mut router = Router::new();
    for route in routes::all() {
        router = router.route(&format!("{ROOT}{}", route.path), route.handler);
    }
    router
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(app.clone(), guard))
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .with_state(app)
}

/// Listens on an address. Errors: invalid (a network address without tokens, one that cannot be bound).
pub async fn bind(address: SocketAddr, tokens: &ApiTokens) -> Result<TcpListener> {
    if tokens.is_empty() && !address.ip().is_loopback() {
        return Err(Error::invalid(format!("{address} can be reached by others, and nobody would need a token"))
            .help("give `--token-file FILE`, or bind to 127.0.0.1"));
    }
    TcpListener::bind(address).await.map_err(|e| {
        Error::invalid(format!("cannot listen on {address}: {e}")).help("give another address with `--bind`")
    })
}

/// Serves until interrupted. Errors: retryable (the server stopped by itself).
pub async fn serve(listener: TcpListener, app: Arc<ApiState>, interrupt: Interrupt) -> Result<()> {
    let stop = async move { interrupt.beyond(0).await };
    axum::serve(listener, router(app))
        .with_graceful_shutdown(stop)
        .await
        .map_err(|e| Error::retryable(format!("the HTTP server stopped: {e}")))
}

async fn no_such_path() -> ApiError {
    ApiError::not_found("there is no such path", "GET /api/v1/openapi.json describes all")
}

async fn no_such_method() -> ApiError {
    let help = "GET /api/v1/openapi.json describes all".to_string();
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "invalid", "the path knows no such method", Some(help))
}
