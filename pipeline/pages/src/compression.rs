//! Compresses complete responses with gzip. Streams of events pass unchanged.

use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;

/// Minimum bytes for which compression pays.
const MIN_BYTES: usize = 1_024;
/// Types that become smaller.
const TYPES: [&str; 5] = ["text/html", "text/css", "text/javascript", "application/json", "image/svg+xml"];

/// Compresses the body of a response whose type becomes smaller.
pub async fn compress(response: Response) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !TYPES.iter().any(|prefix| kind.starts_with(prefix)) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // The bodies are in memory already.
    let Ok(bytes) = to_bytes(body, usize::MAX).await else { return Response::from_parts(parts, Body::empty()) };
    parts.headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if bytes.len() < MIN_BYTES {
        return Response::from_parts(parts, Body::from(bytes));
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    let Ok(compressed) = encoder.write_all(&bytes).and_then(|()| encoder.finish()) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(compressed))
}
