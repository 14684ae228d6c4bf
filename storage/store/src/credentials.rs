//! Which environment variables hold the credentials of a store, for those who start programs that must not have them.

use crate::registry::of_url;

/// The variables that hold the credentials of the store at this URL; a folder has none.
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
