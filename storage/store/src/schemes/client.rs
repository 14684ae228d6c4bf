//! Provides the settings that the clients of all schemes share: limits, retries, TLS, and configuration by environment
//! variables.
//!
//! A request has no limit on its total time, since large objects must be readable over slow lines. It ends when no
//! bytes have arrived for [`IDLE`].
//!
//! TLS and signatures use ring, because rustls' other provider, aws-lc, would add a long C build.

use object_store::{ClientOptions, RetryConfig};
use std::str::FromStr;
use std::time::Duration;

/// Timeout of establishing a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest time without received bytes. The client includes the time until a response begins, and so that of sending a
/// body: the parts of an upload must be sent within it.
const IDLE: Duration = Duration::from_secs(60);
/// Longest time for which `object_store` may retry one request: more than one idle timeout. Few retries, because the
/// create-only rule and ranged reads retry above it, and a missing store should be reported within seconds.
const RETRY: Duration = Duration::from_secs(120);
pub(super) const RETRIES: usize = 4;

/// Returns the limits of a request.
pub(super) fn limits() -> ClientOptions {
    ClientOptions::new().with_timeout_disabled().with_connect_timeout(CONNECT).with_read_timeout(IDLE)
}

/// Returns the retry configuration of a request.
pub(super) fn retry(max_retries: usize) -> RetryConfig {
    RetryConfig { max_retries, retry_timeout: RETRY, ..RetryConfig::default() }
}

/// Installs this process's TLS provider, which every HTTP client needs before it is built. Calling it again is
/// harmless.
pub fn install_tls() {
    // An error means that this process has a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Returns the variables of this process whose names and values are text.
pub(super) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Returns the client options set by variables with this prefix: `AWS_REGION` is `aws_region`. Options that the client
/// does not support are left out.
pub(super) fn options<K: FromStr>(
    environment: impl Iterator<Item = (String, String)>,
    prefix: &str,
) -> impl Iterator<Item = (K, String)> {
    environment
        .filter(move |(name, _)| name.starts_with(prefix))
        .filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value)))
}
