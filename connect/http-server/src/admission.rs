//! Admits or denies requests by their headers, before their body is read.
//!
//! A web page whose domain resolves to 127.0.0.1 sends its own name in `Host`, and a page of another origin sends that
//! origin in `Origin`. A server without credentials checks both headers, so that browsers cannot use it for foreign
//! pages.

use crate::policy::RequestPolicy;
use axum::http::{HeaderMap, HeaderName, Uri, header};
use subtle::ConstantTimeEq as _;
use trainyard_core::Digest;

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
    if !host.is_some_and(is_this_machine) {
        return Err(RequestDenial::OtherHost);
    }
    let origin = text(headers, header::ORIGIN).map(|origin| origin.split_once("://").map_or("", |(_, host)| host));
    if origin.is_some_and(|host| !is_this_machine(host)) {
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

/// Compares two digests in constant time. Compare digests of credentials and not their texts: the time of a text
/// comparison would reveal the length.
pub fn same_digest(a: &Digest, b: &Digest) -> bool {
    a.as_str().as_bytes().ct_eq(b.as_str().as_bytes()).into()
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
        let expected = Digest::of(b"k");
        let find = |key: &str| same_digest(&Digest::of(key.as_bytes()), &expected).then_some(());
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
    fn only_credential_is_checked_with_credentials() {
        let protected = RequestPolicy { protected: true, ..OPEN };
        assert_eq!(admitted(&protected, &[("host", "localhost")]), Err(RequestDenial::NoCredential));
        assert_eq!(admitted(&protected, &[("authorization", "Bearer other")]), Err(RequestDenial::NoCredential));
        assert_eq!(admitted(&protected, &[("host", "gpu-7"), ("authorization", "Bearer k")]), Ok(Some(())));
        assert_eq!(admitted(&protected, &[("x-api-key", "k")]), Err(RequestDenial::NoCredential));
        assert_eq!(admitted(&RequestPolicy { x_api_key: true, ..protected }, &[("x-api-key", "k")]), Ok(Some(())));
    }
}
