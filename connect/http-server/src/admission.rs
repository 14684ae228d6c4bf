//! Admits or denies requests by their headers, before their body is read.
//!
//! A web page whose domain resolves to 127.0.0.1 sends its own name in `Host`, and a page of another origin sends that
//! origin in `Origin`. A server without credentials checks both headers, so that browsers cannot use it for foreign
//! pages.

use crate::policy::RequestPolicy;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

/// Names of this machine in `Host` and `Origin`.
const THIS_MACHINE: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Reason why a request is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestDenial {
    /// The credential is missing or unknown.
    NoCredential,
    /// The request names another host.
    OtherHost,
    /// The request comes from a page of another origin.
    OtherOrigin,
}

/// Admits a request by its headers and its target. `find` looks up the holder of a credential, who is returned; a
/// server without credentials returns `None`.
pub fn admit<T>(
    policy: &RequestPolicy,
    headers: &HeaderMap,
    target: &Uri,
    find: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, RequestDenial> {
    if policy.protected {
        let holder = credential(policy, headers).and_then(find);
        return holder.map(Some).ok_or(RequestDenial::NoCredential);
    }
    let host = text(headers, header::HOST).or_else(|| target.host().filter(|_| policy.target_host));
    // The target of a request may name a host as well.
    let is_other = target.host().is_some_and(|host| !is_this_machine(host));
    if is_other || !host.is_some_and(is_this_machine) {
        return Err(RequestDenial::OtherHost);
    }
    // An origin that is not ASCII is no name of this machine either.
    let origin_host = |origin: &HeaderValue| origin.to_str().ok()?.split_once("://").map(|(_, host)| host.to_string());
    let origin = headers.get(header::ORIGIN).map(|origin| origin_host(origin).unwrap_or_default());
    if origin.is_some_and(|host| !is_this_machine(&host)) {
        return Err(RequestDenial::OtherOrigin);
    }
    Ok(None)
}

/// Returns the credential of a request, from `Authorization: Bearer` or, where the policy permits, `x-api-key`.
pub fn credential<'r>(policy: &RequestPolicy, headers: &'r HeaderMap) -> Option<&'r str> {
    let bearer = text(headers, header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    let api_key = || text(headers, HeaderName::from_static("x-api-key")).filter(|_| policy.x_api_key);
    bearer.or_else(api_key).map(str::trim)
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Returns whether the host is `localhost`, `127.0.0.1` or `[::1]`, with or without a port.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => name,
        _ => host,
    };
    THIS_MACHINE.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::same_token;

    const OPEN: RequestPolicy = RequestPolicy {
        protected: false,
        credential: "key",
        x_api_key: false,
        target_host: false,
        help_unprotected: "set a key",
        help_unbound: "choose another address",
    };

    fn admitted(policy: &RequestPolicy, headers: &[(&str, &str)]) -> Result<Option<()>, RequestDenial> {
        let map = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let find = |key: &str| same_token(key, "k").then_some(());
        admit(policy, &map, &"http://localhost/".parse().unwrap(), find)
    }

    #[test]
    fn only_loopback_names_are_accepted() {
        for host in ["localhost", "localhost:8675", "127.0.0.1:1", "[::1]", "[::1]:8675"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "127.0.0.1:x", "::1"] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn host_and_origin_are_checked_without_credentials() {
        let host = ("host", "127.0.0.1:8000");
        assert_eq!(admitted(&OPEN, &[host]), Ok(None));
        assert_eq!(admitted(&OPEN, &[("host", "evil.example")]), Err(RequestDenial::OtherHost));
        assert_eq!(admitted(&OPEN, &[]), Err(RequestDenial::OtherHost));
        assert_eq!(admitted(&RequestPolicy { target_host: true, ..OPEN }, &[]), Ok(None));
        assert_eq!(admitted(&OPEN, &[host, ("origin", "http://evil.example")]), Err(RequestDenial::OtherOrigin));
        assert_eq!(admitted(&OPEN, &[host, ("origin", "null")]), Err(RequestDenial::OtherOrigin));
        assert_eq!(admitted(&OPEN, &[host, ("origin", "http://localhost:3000")]), Ok(None));
    }

    #[test]
    fn target_of_another_host_is_refused() {
        let headers: HeaderMap = [(header::HOST, HeaderValue::from_static("127.0.0.1:8000"))].into_iter().collect();
        for (target, admitted) in [
            ("/api/v1/health", Ok(None)),
            ("http://127.0.0.1:8000/api/v1/health", Ok(None)),
            ("http://[::1]:8000/", Ok(None)),
            ("http://evil.example/api/v1/health", Err(RequestDenial::OtherHost)),
            ("http://127.0.0.1.evil.example:8000/", Err(RequestDenial::OtherHost)),
        ] {
            assert_eq!(admit(&OPEN, &headers, &target.parse().unwrap(), |_| Some(())), admitted, "{target}");
        }
    }

    #[test]
    fn origin_that_is_not_ascii_is_another_one() {
        let mut headers: HeaderMap = [(header::HOST, HeaderValue::from_static("localhost"))].into_iter().collect();
        let target = "/".parse().unwrap();
        assert_eq!(admit(&OPEN, &headers, &target, |_| Some(())), Ok(None));
        headers.insert(header::ORIGIN, HeaderValue::from_bytes(b"http://localhost\xff").unwrap());
        assert_eq!(admit(&OPEN, &headers, &target, |_| Some(())), Err(RequestDenial::OtherOrigin));
    }

    #[test]
    fn only_credential_is_checked_with_credentials() {
        let protected = RequestPolicy { protected: true, ..OPEN };
        assert_eq!(admitted(&protected, &[("host", "localhost")]), Err(RequestDenial::NoCredential));
        assert_eq!(admitted(&protected, &[("authorization", "Bearer other")]), Err(RequestDenial::NoCredential));
        assert_eq!(admitted(&protected, &[("host", "gpu-7"), ("authorization", "Bearer k")]), Ok(Some(())));
        assert_eq!(admitted(&protected, &[("x-api-key", "k")]), Err(RequestDenial::NoCredential));
        assert_eq!(admitted(&RequestPolicy { x_api_key: true, ..protected }, &[("x-api-key", "k")]), Ok(Some(())));
    }
}
