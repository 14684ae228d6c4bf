//! S3 and compatible stores, with path-style URLs, configured by environment variables alone.
//!
//! TLS and signatures use ring, because rustls' other provider, aws-lc, would add a long C build.

use object_store::RetryConfig;
use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use std::time::Duration;
use trainyard_core::{Error, Result};

/// How long `object_store` may retry one request, in seconds. Few tries, because the create-only rule retries above it,
/// and a store that is not there should be reported within seconds.
const RETRY_SECONDS: u64 = 30;
const RETRIES: usize = 4;

/// A connection to a bucket. Credentials, region, `AWS_ENDPOINT_URL` and `AWS_ALLOW_HTTP` come from the environment.
pub(crate) fn connect(bucket: &str) -> Result<AmazonS3> {
    builder(bucket, RETRIES).build().map_err(|e| {
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

fn builder(bucket: &str, max_retries: usize) -> AmazonS3Builder {
    install_tls();
    let retry =
        RetryConfig { max_retries, retry_timeout: Duration::from_secs(RETRY_SECONDS), ..RetryConfig::default() };
    AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_virtual_hosted_style_request(false)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_retry(retry)
}

#[cfg(test)]
mod tests {
    use crate::{Store, StoreOptions};
    use trainyard_core::ErrorKind;

    /// A client for https is built and begins a handshake; without a TLS provider either step would panic or fail.
    #[tokio::test]
    async fn tls_has_its_provider() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port());
        // Accepts and hangs up, so that the handshake fails.
        std::thread::spawn(move || listener.incoming().for_each(drop));
        let bucket = super::builder("bucket", 0)
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
