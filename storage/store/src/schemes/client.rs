//! What the clients of all schemes share: limits, retries, TLS, and the environment that configures them.
//!
//! A request has no limit on its whole time, or large objects could never be read over slow lines; it ends when nothing
//! arrives for a while.
//!
//! TLS and signatures use ring, because rustls' other provider, aws-lc, would add a long C build.

use object_store::{ClientOptions, RetryConfig};
use std::str::FromStr;
use std::time::Duration;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long nothing may arrive. The client also counts the time until an answer begins, and so that of sending a body:
/// the parts of an upload must get through within it.
const IDLE: Duration = Duration::from_secs(60);
/// How long `object_store` may retry one request: more than one silence. Few tries, because the create-only rule and
/// ranged reads retry above it, and a store that is not there should be reported within seconds.
const RETRY: Duration = Duration::from_secs(120);
pub(super) const RETRIES: usize = 4;

/// Limits of a request.
pub(super) fn limits() -> ClientOptions {
    ClientOptions::new().with_timeout_disabled().with_connect_timeout(CONNECT).with_read_timeout(IDLE)
}

/// Tries of a request.
pub(super) fn retry(max_retries: usize) -> RetryConfig {
    RetryConfig { max_retries, retry_timeout: RETRY, ..RetryConfig::default() }
}

/// Installs this process's TLS provider, which every HTTP client needs before it is built. Calling it again is
/// harmless.
pub fn install_tls() {
    // An error means that this process has a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The variables of this process whose names and values are text.
pub(super) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The options of a client that variables with this prefix set: `AWS_REGION` is `aws_region`. What the client does not
/// know is left out.
pub(super) fn options<K: FromStr>(
    environment: impl Iterator<Item = (String, String)>,
    prefix: &str,
) -> impl Iterator<Item = (K, String)> {
    environment
        .filter(move |(name, _)| name.starts_with(prefix))
        .filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value)))
}
