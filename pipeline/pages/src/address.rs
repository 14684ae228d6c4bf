//! Names under which browsers reach the server.

use axum::http::Uri;
use std::net::SocketAddr;
use trainyard_core::{Error, Result};

/// Names of this machine in `Host`.
const THIS_MACHINE: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Address of the server, and the public address of a proxy before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageAddress {
    bound: SocketAddr,
    /// Address without `/` at its end, such as `https://hub.example/user/ada/proxy/7878`.
    public_url: Option<String>,
    /// Host, with the port if there is one, of the public address.
    public_host: Option<String>,
}

impl PageAddress {
    /// Returns the address of a server at `bound` that browsers reach as `public_url`. Errors: invalid (a public
    /// address without `http://` or `https://` and a host).
    pub fn new(bound: SocketAddr, public_url: Option<&str>) -> Result<Self> {
        let Some(url) = public_url else { return Ok(Self { bound, public_url: None, public_host: None }) };
        let help = "give the address that the browser shows, such as https://hub.example/user/ada/proxy/7878";
        let wrong = || Error::invalid(format!("the public address {url:?} has no scheme and host")).help(help);
        let parsed: Uri = url.parse().map_err(|_| wrong())?;
        let is_http = matches!(parsed.scheme_str(), Some("http" | "https"));
        let host = parsed.authority().filter(|_| is_http && parsed.query().is_none()).ok_or_else(wrong)?;
        let public_host = Some(host.as_str().to_ascii_lowercase());
        Ok(Self { bound, public_url: Some(url.trim_end_matches('/').to_string()), public_host })
    }
    /// Returns the address that a person opens.
    pub fn url(&self) -> String {
        self.public_url.clone().unwrap_or_else(|| format!("http://{}", self.bound))
    }
    /// Returns the port of the server.
    pub fn port(&self) -> u16 {
        self.bound.port()
    }
    /// Returns whether a request may name this host: this machine, the bound address, or the public host. On all
    /// interfaces without a public address, any host is permitted, since tokens are required there.
    pub fn permits_host(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let name = without_port(&host);
        let is_bound = name.trim_matches(['[', ']']).parse() == Ok(self.bound.ip());
        let is_open = self.bound.ip().is_unspecified() && self.public_host.is_none();
        THIS_MACHINE.contains(&name) || is_bound || is_open || self.public_host.as_deref() == Some(host.as_str())
    }
    /// Returns whether a form may come from a page of this origin, in a request that names this host.
    pub fn permits_origin(&self, origin: &str, host: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        let Some((_, named)) = origin.split_once("://") else { return false };
        named == host.to_ascii_lowercase() || self.public_host.as_deref() == Some(named)
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(bound: &str, public_url: Option<&str>) -> PageAddress {
        PageAddress::new(bound.parse().unwrap(), public_url).unwrap()
    }

    #[test]
    fn hosts_are_this_machine_or_the_public_one() {
        let local = address("127.0.0.1:7878", None);
        for (host, permitted) in [
            ("localhost:7878", true),
            ("127.0.0.1:80", true),
            ("[::1]:7878", true),
            ("LOCALHOST", true),
            ("evil.example", false),
            ("localhost.evil.example:7878", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(local.permits_host(host), permitted, "{host}");
        }
        let behind = address("0.0.0.0:7878", Some("https://hub.example:8443/user/ada/"));
        assert!(behind.permits_host("hub.example:8443") && behind.permits_host("localhost:1"));
        assert!(!behind.permits_host("hub.example") && !behind.permits_host("other.example"));
        assert!(address("0.0.0.0:7878", None).permits_host("node7:7878"));
        assert!(address("10.1.2.3:7878", None).permits_host("10.1.2.3:7878"));
        assert!(!address("10.1.2.3:7878", None).permits_host("node7:7878"));
    }

    #[test]
    fn forms_come_from_the_same_origin() {
        let behind = address("127.0.0.1:7878", Some("https://hub.example/user/ada"));
        assert!(behind.permits_origin("http://localhost:7878", "localhost:7878"));
        assert!(behind.permits_origin("https://hub.example", "127.0.0.1:7878"));
        assert!(!behind.permits_origin("http://localhost:8888", "localhost:7878"));
        assert!(!behind.permits_origin("null", "localhost:7878"));
        assert_eq!(behind.url(), "https://hub.example/user/ada");
    }

    #[test]
    fn public_addresses_need_a_scheme_and_a_host() {
        for wrong in ["hub.example", "/user/ada", "ftp://hub.example", "https://hub.example/?x=1", "https://"] {
            assert!(PageAddress::new("127.0.0.1:1".parse().unwrap(), Some(wrong)).is_err(), "{wrong}");
        }
    }
}
