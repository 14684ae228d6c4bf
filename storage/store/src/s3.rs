//! S3 and compatible stores, with path-style URLs, configured by environment variables alone.
//!
//! A request has no limit on its whole time, or large objects could never be read over slow lines; it ends when nothing
//! arrives for a while.
//!
//! TLS and signatures use ring, because rustls' other provider, aws-lc, would add a long C build.

use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use object_store::{ClientOptions, RetryConfig};
use std::time::Duration;
use trainyard_core::{Error, Result};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long nothing may arrive. The client also counts the time until an answer begins, and so that of sending a body:
/// the parts of an upload must get through within it.
const IDLE: Duration = Duration::from_secs(60);
/// How long `object_store` may retry one request: more than one silence. Few tries, because the create-only rule and
/// ranged reads retry above it, and a store that is not there should be reported within seconds.
const RETRY: Duration = Duration::from_secs(120);
const RETRIES: usize = 4;

/// A connection to a bucket. Credentials, region, `AWS_ENDPOINT_URL` and `AWS_ALLOW_HTTP` come from the environment.
pub(crate) fn connect(bucket: &str) -> Result<AmazonS3> {
    builder(bucket, RETRIES, environment()).build().map_err(|e| {
        Error::invalid(format!("cannot connect to the bucket s3://{bucket}"))
            .help(
                "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL and AWS_ALLOW_HTTP \
                 in the environment",
            )
            .caused_by(&e)
    })
}

/// Installs this process's TLS provider, which every HTTP client needs before it is built. Calling it again is
/// harmless.
pub fn install_tls() {
    // An error means that this process has a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The variables of this process whose names and values are text.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

fn builder(bucket: &str, max_retries: usize, environment: impl Iterator<Item = (String, String)>) -> AmazonS3Builder {
    install_tls();
    let retry = RetryConfig { max_retries, retry_timeout: RETRY, ..RetryConfig::default() };
    let limits = ClientOptions::new().with_timeout_disabled().with_connect_timeout(CONNECT).with_read_timeout(IDLE);
    let mut builder = AmazonS3Builder::new().with_client_options(limits);
    // After our limits, so that `AWS_TIMEOUT` and its like have the last word.
    for (name, value) in environment.filter(|(name, _)| name.starts_with("AWS_")) {
        if let Ok(key) = name.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    builder
        .with_bucket_name(bucket)
        .with_virtual_hosted_style_request(false)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_retry(retry)
}

#[cfg(test)]
mod tests {
    use crate::{Store, StoreOptions};
    use object_store::ClientConfigKey;
    use object_store::aws::AmazonS3ConfigKey;
    use trainyard_core::ErrorKind;

    #[test]
    fn only_silence_ends_a_request_unless_the_environment_says_otherwise() {
        let limits = |environment: &[(&str, &str)]| {
            let owned: Vec<_> = environment.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            let builder = super::builder("bucket", 0, owned.into_iter());
            [ClientConfigKey::Timeout, ClientConfigKey::ReadTimeout, ClientConfigKey::ConnectTimeout]
                .map(|key| builder.get_config_value(&AmazonS3ConfigKey::Client(key)).is_some())
        };
        assert_eq!(limits(&[]), [false, true, true]);
        let region = super::builder("bucket", 0, [("AWS_REGION".to_string(), "eu-1".to_string())].into_iter());
        assert_eq!(region.get_config_value(&AmazonS3ConfigKey::Region).as_deref(), Some("eu-1"));
        assert_eq!(limits(&[("AWS_TIMEOUT", "10m"), ("HOME", "/")]), [true, true, true]);
    }

    /// A client for https is built and begins a handshake; without a TLS provider either step would panic or fail.
    #[tokio::test]
    async fn tls_has_its_provider() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port());
        // Accepts and hangs up, so that the handshake fails.
        std::thread::spawn(move || listener.incoming().for_each(drop));
        let bucket = super::builder("bucket", 0, std::iter::empty())
            .with_endpoint(endpoint)
            .with_access_key_id("k")
            .with_secret_access_key("s")
            .build()
            .unwrap();
        let options = StoreOptions { probe: false, ..StoreOptions::default() };
        let store = Store::over(std::sync::Arc::new(bucket), "s3://bucket", options).await.unwrap();
        let error = store.get("x").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Retryable, "{error}");
        assert!(error.message.contains("s3://bucket/x"), "{error}");
        assert!(error.causes().count() > 0, "the client's errors are its causes: {error}");
    }
}
