//! Admits requests before their body is read.
//!
//! Without a server key, requests must name this machine in `Host`, and requests from pages of another origin are
//! rejected.

use super::settings::ModelApiSettings;
use crate::error::ModelApiError;
use axum::http::{HeaderMap, Uri};
use trainyard_core::{Digest, Secret};
use trainyard_http_server::{RequestDenial, RequestPolicy, same_digest};

/// Returns the request policy of this server; `protected` if it has a key.
fn policy(protected: bool) -> RequestPolicy {
    RequestPolicy {
        protected,
        credential: "key",
        x_api_key: true,
        target_host: false,
        help_unprotected: "set a key, or bind to 127.0.0.1",
        help_unbound: "choose another address",
    }
}

/// Returns the request policy of a server with these settings.
pub fn policy_of(settings: &ModelApiSettings) -> RequestPolicy {
    policy(settings.key.is_some() || settings.handler_has_keys)
}

/// Returns the key of a request, if it has one.
pub fn key(headers: &HeaderMap) -> Option<String> {
    trainyard_http_server::credential(&policy(true), headers).map(String::from)
}

/// Admits a request. A protected server without an expected key admits none. Errors: 401 without the expected key; 403
/// for another host or origin.
pub fn admit(
    headers: &HeaderMap,
    target: &Uri,
    protected: bool,
    expected: Option<&Secret>,
) -> Result<(), ModelApiError> {
    let digest = |text: &str| Digest::of(text.as_bytes());
    let same = |key: &str| expected.filter(|expected| same_digest(&digest(key), &digest(expected.reveal())));
    trainyard_http_server::admit(&policy(protected), headers, target, same).map(drop).map_err(refusal)
}

fn refusal(denial: RequestDenial) -> ModelApiError {
    match denial {
        RequestDenial::NoCredential => {
            let message =
                "no valid key; send the key of this server as `Authorization: Bearer KEY` or `x-api-key: KEY`";
            ModelApiError::new(401, message).code("invalid_api_key")
        }
        RequestDenial::OtherHost => ModelApiError::new(403, "the request names another host; use http://127.0.0.1"),
        RequestDenial::OtherOrigin => ModelApiError::new(403, "the request comes from a page of another origin"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(headers: &[(&'static str, &'static str)], expected: Option<&str>) -> u16 {
        let map = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let expected = expected.map(Secret::new);
        admit(&map, &Uri::default(), expected.is_some(), expected.as_ref())
            .map_or_else(|refusal| refusal.status, |()| 200)
    }

    #[test]
    fn keys_hosts_and_origins_are_checked() {
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
        let headers = [("host".parse().unwrap(), "localhost".parse().unwrap())].into_iter().collect();
        assert_eq!(admit(&headers, &Uri::default(), true, None).unwrap_err().status, 401, "an unknown path has no key");
    }
}
