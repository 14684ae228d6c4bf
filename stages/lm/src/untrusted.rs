//! Opens files that a stranger may have made, such as those of a downloaded model.
//!
//! Only regular files are opened, also through links: a FIFO would block its reader, and a device has no end. Files
//! that are read as a whole have a limit of size.

use rustix::fs::OFlags;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Maximum bytes of `config.json` and other files of options.
pub const OPTIONS: u64 = 16 << 20;
/// Maximum bytes of the index of several weight files.
pub const INDEX: u64 = 64 << 20;
/// Maximum bytes of a `tokenizer.json`. Those of the largest vocabularies have 35 MB.
pub const TOKENIZER: u64 = 128 << 20;

/// Opens a regular file, or the regular file to which a link points. Errors: a file of another kind, which is never
/// waited for.
pub fn open(path: &Path) -> Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    // A socket cannot be opened at all.
    let file =
        file.map_err(|e| if e.raw_os_error() == Some(NO_SUCH_DEVICE) { other(path) } else { io_error(path, &e) })?;
    if file.metadata().map_err(|e| io_error(path, &e))?.is_file() { Ok(file) } else { Err(other(path)) }
}

/// Error number of opening a socket.
const NO_SUCH_DEVICE: i32 = rustix::io::Errno::NXIO.raw_os_error();

fn other(path: &Path) -> Error {
    Error::invalid(format!("{}: not a regular file", path.display())).help("replace it by the file itself")
}

/// Reads a regular file of at most `limit` bytes as text. Errors: a larger file, text that is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String> {
    let mut file = open(path)?;
    let size = file.metadata().map_err(|e| io_error(path, &e))?.len();
    if size > limit {
        return Err(too_large(path, limit));
    }
    let mut text = String::with_capacity(size as usize);
    // The file may grow while it is read.
    file.by_ref().take(limit + 1).read_to_string(&mut text).map_err(|e| io_error(path, &e))?;
    if text.len() as u64 > limit { Err(too_large(path, limit)) } else { Ok(text) }
}

fn too_large(path: &Path, limit: u64) -> Error {
    Error::data(format!("{}: the file has more than {limit} bytes, the limit of its kind", path.display()))
        .help("fetch the file again from its publisher")
}

/// Reads a file as [`read_text`] does, or returns `None` if it does not exist.
pub fn read_text_if_exists(path: &Path, limit: u64) -> Result<Option<String>> {
    match std::fs::metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        _ => read_text(path, limit).map(Some),
    }
}

/// Reads a file of at most `limit` bytes as JSON. Errors name the file.
pub fn read_json(path: &Path, limit: u64) -> Result<Value> {
    parse_json(path, &read_text(path, limit)?)
}

/// Parses the text of a file as JSON. Errors name the file.
pub fn parse_json(path: &Path, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| Error::data(format!("{}: not valid JSON: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::symlink;

    #[test]
    fn files_of_other_kinds_are_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let [fifo, device, socket] = ["fifo", "device", "socket"].map(|name| folder.path().join(name));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        symlink("/dev/zero", &device).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [fifo.as_path(), &device, &socket, folder.path()] {
            let error = read_text(path, 100).unwrap_err();
            assert!(error.message.contains("not a regular file"), "{error}");
            assert!(error.message.contains(&path.display().to_string()) && error.help.is_some(), "{error}");
        }
    }

    #[test]
    fn regular_files_are_read_up_to_the_limit_also_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, absent] = ["file", "link", "absent"].map(|name| folder.path().join(name));
        std::fs::write(&file, "12345").unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(read_text(&link, 5).unwrap(), "12345");
        assert!(read_text(&file, 4).unwrap_err().message.contains("more than 4 bytes"));
        assert_eq!(read_text_if_exists(&absent, 5).unwrap(), None);
        assert_eq!(read_text_if_exists(&file, 5).unwrap().as_deref(), Some("12345"));
        assert_eq!(read_json(&file, 5).unwrap(), 12_345);
        std::fs::write(&file, "{").unwrap();
        assert!(read_json(&file, 5).unwrap_err().message.contains("file: not valid JSON"));
    }
}
