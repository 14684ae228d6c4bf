//! Names the environment variables that contain the credentials of a store, so that launchers can withhold them from
//! programs.

use crate::registry::of_url;

/// Returns the variables that contain the credentials of the store at this URL; a folder has no credentials.
///
/// ```
/// use trainyard_store::credentials;
///
/// assert!(credentials("s3://bucket/prefix").contains(&"AWS_SECRET_ACCESS_KEY"));
/// assert!(credentials("az://container/prefix").contains(&"AZURE_STORAGE_ACCOUNT_KEY"));
/// assert!(credentials("gs://bucket/prefix").contains(&"GOOGLE_APPLICATION_CREDENTIALS"));
/// assert!(credentials("file:///data/store").is_empty());
/// ```
pub fn credentials(url: &str) -> &'static [&'static str] {
    of_url(url).map_or(&[], |scheme| scheme.credentials)
}
