//! Which environment variables hold the credentials of a store, for those who start programs that must not have them.

/// What gives access to buckets, among the `AWS_*` variables that the S3 client reads.
const AWS: [&str; 8] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
];

/// The variables that hold the credentials of the store at this URL; a folder has none.
///
/// ```
/// use trainyard_store::credentials;
///
/// assert!(credentials("s3://bucket/prefix").contains(&"AWS_SECRET_ACCESS_KEY"));
/// assert!(credentials("file:///data/store").is_empty());
/// ```
pub fn credentials(url: &str) -> &'static [&'static str] {
    if url.starts_with("s3://") { &AWS } else { &[] }
}
