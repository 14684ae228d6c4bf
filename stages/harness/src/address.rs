//! Chooses the address at which the server of an environment listens, and the URL that programs get.

use std::net::{IpAddr, SocketAddr};
use trainyard_core::{Error, Result};

/// Default of `bind`.
pub const LOOPBACK: &str = "127.0.0.1";

/// Parses `bind`, an IP address with or without a port. Errors: invalid.
pub fn parse_bind(text: &str) -> Result<SocketAddr> {
    let with_any_port = || text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0));
    text.parse().or_else(|_| with_any_port()).map_err(|_| {
        Error::invalid(format!("`{text}` is not an IP address with or without a port"))
            .help("write for example `0.0.0.0`, `10.0.0.7:8080` or `[::]:8080`")
    })
}

/// Checks `advertise`, a host with or without a port, or a URL. Errors: invalid.
pub fn check_advertise(text: &str) -> Result<()> {
    let (rest, is_url) = match text.split_once("://") {
        Some(("http" | "https", rest)) => (rest, true),
        Some(_) => ("", true),
        None => (text, false),
    };
    let host_and_port = rest.split('/').next().unwrap_or_default();
    let port_is_valid = port(host_and_port).is_none_or(|port| port.parse::<u16>().is_ok());
    let has_forbidden = rest.chars().any(|c| c.is_whitespace() || matches!(c, '?' | '#' | '@'));
    let has_path = !is_url && rest.contains('/');
    if host(host_and_port).is_empty() || !port_is_valid || has_forbidden || has_path {
        return Err(Error::invalid(format!("`{text}` is not a host, a host with a port or a URL"))
            .help("write for example `gpu-7`, `host.docker.internal:8080` or `https://gate.example/policy`"));
    }
    Ok(())
}

/// Returns the URL of the server for programs, without a slash at its end. Without `advertise`, it is the address at
/// which the server listens.
pub fn url(bound: SocketAddr, advertise: &str) -> String {
    if advertise.is_empty() {
        return format!("http://{bound}");
    }
    if advertise.contains("://") {
        return advertise.trim_end_matches('/').to_string();
    }
    match port(advertise) {
        Some(_) => format!("http://{advertise}"),
        None => format!("http://{advertise}:{}", bound.port()),
    }
}

/// Returns the host of a URL, for lists of hosts that are reached without a proxy.
pub fn host_of_url(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    host(rest.split('/').next().unwrap_or_default()).trim_matches(['[', ']'])
}

fn host(host_and_port: &str) -> &str {
    port(host_and_port).map_or(host_and_port, |port| &host_and_port[..host_and_port.len() - port.len() - 1])
}

/// Returns what follows the last colon, except within an IPv6 address in brackets.
fn port(host_and_port: &str) -> Option<&str> {
    let (_, port) = host_and_port.rsplit_once(':')?;
    (!port.ends_with(']')).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bind_is_an_ip_address() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1:0"),
            ("0.0.0.0", "0.0.0.0:0"),
            ("10.0.0.7:8080", "10.0.0.7:8080"),
            ("::1", "[::1]:0"),
            ("[::]:8080", "[::]:8080"),
        ] {
            assert_eq!(parse_bind(text).unwrap().to_string(), address);
        }
        for text in ["", "localhost", "1.2.3", "127.0.0.1:x", "http://127.0.0.1"] {
            assert!(parse_bind(text).is_err(), "{text}");
        }
    }

    #[test]
    fn advertised_host_gets_the_port_of_the_server() {
        let bound = "0.0.0.0:4711".parse().unwrap();
        for (advertise, expected, host) in [
            ("", "http://0.0.0.0:4711", "0.0.0.0"),
            ("gpu-7", "http://gpu-7:4711", "gpu-7"),
            ("host.docker.internal:80", "http://host.docker.internal:80", "host.docker.internal"),
            ("[fd00::7]", "http://[fd00::7]:4711", "fd00::7"),
            ("[fd00::7]:80", "http://[fd00::7]:80", "fd00::7"),
            ("https://gate.example/policy/", "https://gate.example/policy", "gate.example"),
        ] {
            assert_eq!(url(bound, advertise), expected);
            assert_eq!(host_of_url(expected), host);
            assert!(advertise.is_empty() || check_advertise(advertise).is_ok(), "{advertise}");
        }
        for text in ["", ":80", "gpu-7:x", "gpu 7", "ftp://gpu-7", "http://", "gpu-7/path", "http://a@b", "gpu-7:70000"]
        {
            assert!(check_advertise(text).is_err(), "{text}");
        }
    }
}
