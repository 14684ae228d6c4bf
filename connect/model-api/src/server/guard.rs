//! Admission of requests before the body is read.
//!
//! Without a server key, requests must name this machine in `Host` while the server is bound to loopback: a web page
//! whose name was rebound to 127.0.0.1 does not. A page of another origin is always rejected.

use crate::error::ModelApiError;
use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq as _;
use trainyard_core::Secret;

/// Returns the key of a request.
pub fn key(headers: &HeaderMap) -> Option<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text(header::AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("Bearer "));
    bearer.or_else(|| text("x-api-key")).map(|key| key.trim().to_string())
}

/// Admits a request. Errors: 401 without the key; 403 for another host or origin.
pub fn admit(headers: &HeaderMap, expected: Option<&Secret>, loopback: bool) -> Result<(), ModelApiError> {
    if let Some(expected) = expected {
        let brought = key(headers).unwrap_or_default();
        if bool::from(brought.as_bytes().ct_eq(expected.reveal().as_bytes())) {
            return Ok(());
        }
        let message = "no valid key; send the server's key as `Authorization: Bearer KEY` or `x-api-key: KEY`";
        return Err(ModelApiError::new(401, message).code("invalid_api_key"));
    }
    let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
    if loopback && !text(header::HOST).is_some_and(is_this_machine) {
        return Err(ModelApiError::new(403, "the request names another host; use http://127.0.0.1"));
    }
    let origin = text(header::ORIGIN).map(|origin| origin.split_once("://").map_or("", |(_, host)| host));
    if origin.is_some_and(|host| !is_this_machine(host)) {
        return Err(ModelApiError::new(403, "the request comes from a page of another origin"));
    }
    Ok(())
}

/// Returns whether a host is `localhost`, `127.0.0.1` or `[::1]`, with or without a port.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => name,
        _ => host,
    };
    ["localhost", "127.0.0.1", "[::1]"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(headers: &[(&'static str, &'static str)], expected: Option<&str>) -> u16 {
        let map = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let expected = expected.map(Secret::new);
        admit(&map, expected.as_ref(), true).map_or_else(|refusal| refusal.status, |()| 200)
    }

    #[test]
    fn keys_hosts_and_origins_are_looked_at() {
        let host = ("host", "127.0.0.1:8000");
        assert_eq!(status(&[host], None), 200);
        assert_eq!(status(&[("host", "evil.example")], None), 403);
        assert_eq!(status(&[], None), 403);
        assert_eq!(status(&[host, ("origin", "http://evil.example")], None), 403);
        assert_eq!(status(&[host, ("origin", "http://localhost:3000")], None), 200);
        assert_eq!(status(&[host], Some("k")), 401);
        assert_eq!(status(&[host, ("authorization", "Bearer other")], Some("k")), 401);
        assert_eq!(status(&[("host", "gpu-7"), ("authorization", "Bearer k")], Some("k")), 200);
        assert_eq!(status(&[host, ("x-api-key", "k")], Some("k")), 200);
    }
}
