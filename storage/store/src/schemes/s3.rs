//! Connects to Amazon S3 and compatible stores (`s3://`), with path-style URLs.

use super::Scheme;
use super::client::{RETRIES, environment, install_tls, limits, options, retry};
use object_store::ObjectStore;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use std::sync::Arc;
use trainyard_core::{Error, Result};

pub(crate) const SCHEME: Scheme = Scheme {
    name: "s3",
    aliases: &["s3a", "s3n"],
    place: "bucket",
    cloud: "AWS",
    sign_in: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where a role gives them",
    credentials: &[
        "AWS_ACCESS_KEY_ID",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_TOKEN",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
    ],
    connect,
};

/// Connects to a bucket. Credentials, region, `AWS_ENDPOINT_URL` and `AWS_ALLOW_HTTP` come from the environment.
fn connect(bucket: &str) -> Result<Arc<dyn ObjectStore>> {
    let client = builder(bucket, RETRIES, environment()).build().map_err(|e| {
        Error::invalid(format!("cannot connect to the bucket s3://{bucket}"))
            .help(
                "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL and AWS_ALLOW_HTTP \
                 in the environment",
            )
            .caused_by(&e)
    })?;
    Ok(Arc::new(client))
}

fn builder(bucket: &str, max_retries: usize, environment: impl Iterator<Item = (String, String)>) -> AmazonS3Builder {
    install_tls();
    // Our limits first, so that `AWS_TIMEOUT` and similar variables override them.
    let builder = AmazonS3Builder::new().with_client_options(limits());
    let builder = options(environment, "AWS_").fold(builder, |b, (key, value)| b.with_config(key, value));
    builder
        .with_bucket_name(bucket)
        .with_virtual_hosted_style_request(false)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_retry(retry(max_retries))
}

#[cfg(test)]
mod tests {
    use crate::{Store, StoreOptions};
    use object_store::ClientConfigKey;
    use object_store::aws::AmazonS3ConfigKey;
    use trainyard_core::ErrorKind;

    #[test]
    fn idle_timeout_is_the_default_limit() {
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
        // Accepts and closes connections, so that the handshake fails.
        std::thread::spawn(move || listener.incoming().for_each(drop));
        let bucket = super::builder("bucket", 0, std::iter::empty())
            .with_endpoint(endpoint)
            .with_access_key_id("k")
            .with_secret_access_key("s")
            .build()
            .unwrap();
        let options = StoreOptions { probe: false, ..StoreOptions::default() };
        let store = Store::from_object_store(std::sync::Arc::new(bucket), "s3://bucket", options).await.unwrap();
        let error = store.get("x").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Retryable, "{error}");
        assert!(error.message.contains("s3://bucket/x"), "{error}");
        assert!(error.causes().count() > 0, "the client's errors are its causes: {error}");
    }
}
