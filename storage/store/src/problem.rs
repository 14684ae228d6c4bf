//! Turns an `object_store` or file error into an error of a kind that callers can act on, with the path in it.

use std::error::Error as StdError;
use std::io::{self, ErrorKind as Io};
use trainyard_core::Error;

/// `action` is what failed: `write`, `read`, `list`, `delete`.
pub(crate) fn fault(action: &str, url: &str, path: &str, error: &object_store::Error) -> Error {
    use object_store::Error as E;
    if lacks_credentials(error) {
        return Error::invalid(format!("cannot {action} {url}/{path}: no AWS credentials"))
            .help("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where a role gives them");
    }
    if let Some(io) = find_io(error) {
        return io_fault(action, &format!("{url}/{path}"), io);
    }
    let message = format!("cannot {action} {url}/{path}: {}", innermost(error));
    match error {
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => Error::invalid(message)
            .help(format!("give this user the right to {action} there, or choose another store with `--store`")),
        E::NotSupported { .. } | E::NotImplemented { .. } | E::UnknownConfigurationKey { .. } => {
            Error::invalid(message)
        }
        E::InvalidPath { .. } => Error::bug(message),
        E::NotFound { .. } if action == "write" => Error::invalid(message).help("the folder or bucket must exist"),
        E::NotFound { .. } => Error::lost(message),
        _ => Error::retryable(message).help("the store did not answer as it should; run the same command again"),
    }
}

/// The same for a file operation. `place` names the file.
pub(crate) fn io_fault(action: &str, place: &str, error: &io::Error) -> Error {
    let message = format!("cannot {action} {place}: {error}");
    match error.kind() {
        Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => Error::retryable(message)
            .help("free some space, then run the same command again; what was published is intact"),
        Io::ReadOnlyFilesystem | Io::PermissionDenied => Error::invalid(message)
            .help("make it writable, or choose another store with `--store`; what was published is intact"),
        Io::NotFound | Io::NotADirectory => Error::lost(message),
        _ => Error::retryable(message),
    }
}

/// Whether the fault says for sure that nothing was written and that trying again at once is in vain.
pub(crate) fn is_final(error: &object_store::Error) -> bool {
    use object_store::Error as E;
    if lacks_credentials(error) {
        return true;
    }
    if let Some(io) = find_io(error) {
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

/// Without credentials in the environment the client asks the metadata service of a cloud machine. Elsewhere nobody
/// answers, and that service's address would only mislead.
fn lacks_credentials(error: &object_store::Error) -> bool {
    let mut source: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(this) = source {
        let text = this.to_string();
        if ["/latest/api/token", "/latest/meta-data", "169.254.169.254"].iter().any(|mark| text.contains(mark)) {
            return true;
        }
        source = this.source();
    }
    false
}

fn find_io(error: &object_store::Error) -> Option<&io::Error> {
    let mut source: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(this) = source {
        // An HTTP client's broken connection is an io::Error too; only faults of a disk are told apart here.
        if let Some(io) = this.downcast_ref::<io::Error>() {
            return is_disk(io).then_some(io);
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

/// The cause at the end of the chain says most; what stands before it repeats it.
fn innermost(error: &object_store::Error) -> String {
    let mut this: &dyn StdError = error;
    while let Some(source) = this.source() {
        this = source;
    }
    let (outer, inner) = (error.to_string(), this.to_string());
    if outer.contains(&inner) { outer } else { format!("{outer} ({inner})") }
}
