//! S3 and what speaks like it, path style, configured by the environment alone.
//!
//! TLS is rustls with ring, for signatures and transport alike: the other provider, aws-lc, would add a long C build.

use object_store::RetryConfig;
use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use std::time::Duration;
use trainyard_core::{Error, Result};

/// How long one request may be retried inside `object_store`, in seconds. Few tries: the create-only rule retries above it, and
/// a store that is not there should be reported within seconds.
const RETRY_SECONDS: u64 = 30;
const RETRIES: usize = 4;

/// A connection to a bucket. Credentials, region, `AWS_ENDPOINT_URL` and `AWS_ALLOW_HTTP` come from the environment.
pub(crate) fn connect(bucket: &str) -> Result<AmazonS3> {
    builder(bucket, RETRIES).build().map_err(|e| {
        Error::invalid(format!("cannot use the bucket s3://{bucket}: {e}")).help(
            "see the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP",
        )
    })
}

/// Gives this process its TLS provider. Every HTTP client needs one before it is built; calling again changes nothing.
pub fn install_tls() {
    // An error means that this process has a provider already, which is as good.
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

    /// A client for https is built and reaches its handshake: without a TLS provider either step would panic or say so.
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
    }
}
