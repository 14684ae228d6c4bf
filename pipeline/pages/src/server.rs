//! Router of all pages, with access rules, security headers, rendered errors and compression.

use crate::assets;
use crate::compression::compress;
use crate::error::PageError;
use crate::guard::guard;
use crate::layout::{Document, Heading, document};
use crate::links::Links;
use crate::pages;
use crate::state::PageState;
use crate::text::visible;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::html;
use std::sync::Arc;

/// Maximum bytes of a form.
const MAX_BYTES: usize = 256 * 1024;
/// Content security policy: browsers load assets of this server only, and run no script inside of a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Builds the router of all pages.
pub fn router(app: Arc<PageState>) -> Router {
    let mut router = Router::new().route("/assets/{name}", get(assets::serve));
    for page in pages::all() {
        router = router.route(page.path, page.handler);
    }
    router
        .fallback(async || PageError::not_found("there is no such page").help("the list of runs is the first page"))
        .method_not_allowed_fallback(async || {
            PageError::new(StatusCode::METHOD_NOT_ALLOWED, "the page does not support this method")
        })
        .layer(from_fn_with_state(app.clone(), guard))
        .layer(DefaultBodyLimit::max(MAX_BYTES))
        .layer(from_fn_with_state(app.clone(), finish))
        .with_state(app)
}

/// Renders errors, adds the security headers, and compresses.
async fn finish(State(app): State<Arc<PageState>>, mut request: Request, next: Next) -> Response {
    let mut links = Links::of_request(request.uri().path(), request.extensions());
    links.has_daemon = app.daemon.is_some();
    request.extensions_mut().insert(links.clone());
    let accepts_gzip = request.headers().get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let accepts_gzip = accepts_gzip.is_some_and(|value| value.contains("gzip"));
    let response = next.run(request).await;
    let mut response = match response.extensions().get::<PageError>() {
        Some(error) => (error.status, error_page(&links, error)).into_response(),
        None => response,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        // A response with untrusted text has a stricter policy.
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if accepts_gzip { compress(response).await } else { response }
}

fn error_page(links: &Links, error: &PageError) -> Document {
    let title = error.status.canonical_reason().unwrap_or("Error");
    let content = html! {
        p .failure role="alert" { (visible(&error.message)) }
        @if let Some(help) = &error.help { p { (visible(help)) } }
        p { a href=(links.to(&[])) { "All runs" } }
    };
    document(links, &Heading { title: title.to_string(), ..Heading::default() }, &content)
}
