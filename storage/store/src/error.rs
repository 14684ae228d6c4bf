//! Converts errors of `object_store` and of file operations to Trainyard's: one sentence that names the path, followed
//! by the causes.

use crate::registry::of_url;
use crate::root::FolderGone;
use std::error::Error as StdError;
use std::io::{self, ErrorKind as Io};
use trainyard_core::Error;

/// Returns the error of a failed request. `action` is the failed operation: `write`, `read`, `list` or `delete`.
pub(crate) fn request_error(action: &str, url: &str, path: &str, error: &object_store::Error) -> Error {
    use object_store::Error as E;
    if missing_credentials(error) {
        let (cloud, help) = of_url(url).map_or(("cloud", ""), |scheme| (scheme.cloud, scheme.sign_in));
        return Error::lost(format!("cannot {action} {url}/{path}: no {cloud} credentials")).help(help);
    }
    if let Some(missing) = find_io(error).and_then(FolderGone::find) {
        return Error::lost(format!("cannot {action} {url}/{path}: {missing}"))
            .help("restore the folder before you run the same command again, or the command makes a new store");
    }
    if let Some(io) = find_io(error).filter(|io| is_disk(io)) {
        return file_error(action, &format!("{url}/{path}"), io);
    }
    let message = |why: &str| format!("cannot {action} {url}/{path}: {why}");
    let permission_help = format!("give this user the right to {action} there, or choose another store with `--store`");
    let retry_help = "run the same command again; `trainyard doctor` checks the store";
    let found = match error {
        E::PermissionDenied { .. } => Error::invalid(message("the store denied access")).help(permission_help),
        E::Unauthenticated { .. } => {
            Error::invalid(message("the store rejected the credentials")).help(permission_help)
        }
        E::NotSupported { .. } | E::NotImplemented { .. } | E::UnknownConfigurationKey { .. } => {
            Error::invalid(message("the store does not support this request"))
        }
        E::InvalidPath { .. } => Error::bug(message("this is not a valid path")),
        E::NotFound { .. } if action == "write" => {
            Error::invalid(message("it does not exist")).help("the folder or bucket must exist")
        }
        E::NotFound { .. } => Error::lost(message("it does not exist")),
        _ if find_io(error).is_some() => Error::retryable(message("the store cannot be reached")).help(retry_help),
        _ => Error::retryable(message("the store's response was not as expected")).help(retry_help),
    };
    found.caused_by(error)
}

/// Returns the error of a failed file operation. `action` is the operation, and `place` names the file.
pub(crate) fn file_error(action: &str, place: &str, error: &io::Error) -> Error {
    let message = format!("cannot {action} {place}: {error}");
    match error.kind() {
        Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => Error::retryable(message)
            .help("free some space, then run the same command again; published artifacts are intact"),
        Io::ReadOnlyFilesystem | Io::PermissionDenied => Error::invalid(message)
            .help("make it writable, or choose another store with `--store`; published artifacts are intact"),
        Io::NotFound | Io::NotADirectory => Error::lost(message),
        _ => Error::retryable(message),
    }
}

/// Whether the request certainly wrote no bytes, and an immediate retry would fail in the same way.
pub(crate) fn is_final(error: &object_store::Error) -> bool {
    use object_store::Error as E;
    if missing_credentials(error) || find_io(error).and_then(FolderGone::find).is_some() {
        return true;
    }
    if let Some(io) = find_io(error).filter(|io| is_disk(io)) {
        let kinds = [
            Io::StorageFull,
            Io::QuotaExceeded,
            Io::FileTooLarge,
            Io::ReadOnlyFilesystem,
            Io::PermissionDenied,
            Io::NotADirectory,
        ];
        return kinds.contains(&io.kind());
    }
    matches!(
        error,
        E::PermissionDenied { .. }
            | E::Unauthenticated { .. }
            | E::NotSupported { .. }
            | E::NotImplemented { .. }
            | E::InvalidPath { .. }
            | E::NotFound { .. }
    )
}

/// Whether the store refused the credentials. They may have expired and be renewed within minutes, unlike the
/// permissions of a disk's user.
pub(crate) fn is_auth_error(error: &object_store::Error) -> bool {
    use object_store::Error as E;
    let refused = matches!(error, E::PermissionDenied { .. } | E::Unauthenticated { .. }) || missing_credentials(error);
    refused && !find_io(error).is_some_and(is_disk)
}

/// Parts of the addresses of metadata services.
const METADATA: [&str; 4] = ["/latest/api/token", "/latest/meta-data", "169.254.169.254", "metadata.google.internal"];

/// Whether credentials are missing. Without credentials in the environment the client queries the metadata service of a
/// cloud machine. Elsewhere that service does not exist, and its address in an error would be misleading.
fn missing_credentials(error: &object_store::Error) -> bool {
    let mut source: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(this) = source {
        let text = this.to_string();
        if METADATA.iter().any(|mark| text.contains(mark)) {
            return true;
        }
        source = this.source();
    }
    false
}

/// Returns the first `io::Error` in the chain: of a disk, or of an HTTP client's connection.
fn find_io(error: &object_store::Error) -> Option<&io::Error> {
    let mut source: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(this) = source {
        if let Some(io) = this.downcast_ref::<io::Error>() {
            return Some(io);
        }
        source = this.source();
    }
    None
}

fn is_disk(error: &io::Error) -> bool {
    error.raw_os_error().is_some()
        && !matches!(
            error.kind(),
            Io::ConnectionRefused | Io::ConnectionReset | Io::ConnectionAborted | Io::BrokenPipe | Io::TimedOut
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::ErrorKind;

    #[test]
    fn a_refusal_is_one_sentence_with_its_causes() {
        let refused = object_store::Error::PermissionDenied { path: "a/b".into(), source: "403 Forbidden".into() };
        let error = request_error("write", "s3://bucket", "a/b", &refused);
        assert_eq!(error.message, "cannot write s3://bucket/a/b: the store denied access");
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert_eq!(error.causes().last(), Some("403 Forbidden"));
    }

    #[test]
    fn missing_credentials_name_the_cloud() {
        let credentials_error =
            |url: &str| object_store::Error::Generic { store: "x", source: format!("GET {url}: refused").into() };
        for (store, service, says, help) in [
            ("s3://b", "http://169.254.169.254/latest/api/token", "no AWS credentials", "AWS_ACCESS_KEY_ID"),
            ("az://c", "http://169.254.169.254/metadata/identity", "no Azure credentials", "AZURE_STORAGE_ACCOUNT_KEY"),
            ("gs://b", "http://metadata.google.internal/x", "no Google Cloud credentials", "GOOGLE_APPLICATION"),
        ] {
            let error = request_error("list", store, "runs", &credentials_error(service));
            assert_eq!(error.message, format!("cannot list {store}/runs: {says}"));
            assert!(error.help.is_some_and(|help_text| help_text.contains(help)) && error.source.is_none());
        }
    }

    #[test]
    fn a_broken_connection_is_not_a_broken_disk() {
        let io = |kind: Io| object_store::Error::Generic { store: "S3", source: io::Error::from(kind).into() };
        let error = request_error("read", "s3://bucket", "x", &io(Io::ConnectionRefused));
        assert_eq!(error.message, "cannot read s3://bucket/x: the store cannot be reached");
        assert_eq!((error.kind, error.causes().last()), (ErrorKind::Retryable, Some("connection refused")));
        let full = object_store::Error::Generic { store: "local", source: io::Error::from_raw_os_error(28).into() };
        assert!(request_error("write", "file:///s", "x", &full).message.contains("No space left on device"));
        assert!(is_final(&full) && !is_final(&io(Io::ConnectionReset)));
    }

    #[test]
    fn a_store_refuses_credentials_and_a_disk_its_user() {
        let denied = |source| object_store::Error::PermissionDenied { path: "x".into(), source };
        assert!(is_auth_error(&denied("403 Forbidden".into())));
        assert!(!is_auth_error(&denied(io::Error::from_raw_os_error(13).into())));
        let missing = object_store::Error::NotFound { path: "x".into(), source: "404 Not Found".into() };
        assert!(!is_auth_error(&missing));
    }
}
