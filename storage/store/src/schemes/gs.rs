//! Connects to buckets of Google Cloud Storage (`gs://`) through its XML interface.

use super::Scheme;
use super::client::{RETRIES, environment, install_tls, limits, options, retry};
use object_store::ObjectStore;
use object_store::gcp::GoogleCloudStorageBuilder;
use std::sync::Arc;
use trainyard_core::{Error, Result};

pub(crate) const SCHEME: Scheme = Scheme {
    name: "gs",
    aliases: &["gcs"],
    place: "bucket",
    cloud: "Google Cloud",
    sign_in: "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account or of `gcloud auth \
              application-default login`, or run where a service account is attached",
    credentials: &[
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_BEARER_TOKEN",
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
    ],
    connect,
};

/// Connects to a bucket. Credentials, `GOOGLE_BASE_URL` and `GOOGLE_ALLOW_HTTP` come from the environment.
fn connect(bucket: &str) -> Result<Arc<dyn ObjectStore>> {
    let client = builder(bucket, RETRIES, environment()).build().map_err(|e| {
        Error::invalid(format!("cannot connect to the bucket gs://{bucket}"))
            .help(
                "check GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_SERVICE_ACCOUNT, GOOGLE_BASE_URL and \
                 GOOGLE_ALLOW_HTTP in the environment",
            )
            .caused_by(&e)
    })?;
    Ok(Arc::new(client))
}

fn builder(
    bucket: &str,
    max_retries: usize,
    environment: impl Iterator<Item = (String, String)>,
) -> GoogleCloudStorageBuilder {
    install_tls();
    // Our limits first, so that `GOOGLE_TIMEOUT` and similar variables override them.
    let builder = GoogleCloudStorageBuilder::new().with_client_options(limits());
    let builder = options(environment, "GOOGLE_").fold(builder, |b, (key, value)| b.with_config(key, value));
    builder.with_bucket_name(bucket).with_retry(retry(max_retries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::ClientConfigKey;
    use object_store::gcp::GoogleConfigKey;

    #[test]
    fn environment_sets_the_bucket_and_overrides_limits() {
        let given = [("GOOGLE_BASE_URL", "http://127.0.0.1:1"), ("GOOGLE_BUCKET", "other"), ("GOOGLE_TIMEOUT", "10m")];
        let built = builder("bucket", 0, given.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        let value = |key: GoogleConfigKey| built.get_config_value(&key);
        assert_eq!(value(GoogleConfigKey::BaseUrl).as_deref(), Some("http://127.0.0.1:1"));
        assert_eq!(value(GoogleConfigKey::Bucket).as_deref(), Some("bucket"), "the URL names the bucket");
        assert!(value(GoogleConfigKey::Client(ClientConfigKey::Timeout)).is_some());
        assert!(value(GoogleConfigKey::Client(ClientConfigKey::ConnectTimeout)).is_some());
    }
}
