//! Creates access tokens, keeps them in files of their user, and compares them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use subtle::ConstantTimeEq as _;
use trainyard_core::error::io_error;
use trainyard_core::{Digest, Error, Result, Secret};

/// Bytes of a token, which is written in hexadecimal.
const BYTES: usize = 32;

/// Returns a token of 64 hexadecimal characters from the random source of the operating system. Unlike run ids, a token
/// must not follow from a seed. Errors: retryable, if the system has no random source.
pub fn random_token() -> Result<Secret> {
    let bytes = random_bytes::<BYTES>("a token")?;
    Ok(Secret::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

/// Returns a seed from the random source of the operating system, for ids that a client must not guess. Errors:
/// retryable, if the system has no random source.
pub fn random_seed() -> Result<u64> {
    random_bytes("a seed").map(u64::from_le_bytes)
}

fn random_bytes<const N: usize>(what: &str) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| {
        Error::retryable(format!("cannot draw {what}: {e}")).help("check that /dev/urandom exists, and try again")
    })?;
    Ok(bytes)
}

/// Compares two digests in constant time. Compare digests of credentials and not their texts: the time of a text
/// comparison would reveal the length.
pub fn same_digest(a: &Digest, b: &Digest) -> bool {
    a.as_str().as_bytes().ct_eq(b.as_str().as_bytes()).into()
}

/// Compares two credentials in constant time.
pub fn same_token(a: &str, b: &str) -> bool {
    same_digest(&Digest::of(a.as_bytes()), &Digest::of(b.as_bytes()))
}

/// File that contains the token of a running server, readable by its user alone. It is removed when this value is
/// dropped.
pub struct TokenFile {
    path: PathBuf,
    token: Secret,
}

impl TokenFile {
    /// Draws a token and writes it to `path`, in place of the token of an earlier server. Creates the folder, which
    /// only this user may enter. Errors: those of [`random_token`] and of the file system.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        let (path, token) = (path.into(), random_token()?);
        write_private(&path, &token).map_err(|e| {
            io_error(&path, &e).help("set TRAINYARD_HOME to a folder that you can write to, or give a file of tokens")
        })?;
        Ok(Self { path, token })
    }
    pub fn path(&self) -> &Path {
        &self.path
    }
    pub fn token(&self) -> &Secret {
        &self.token
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // A later server on the same port may have replaced the file.
        if std::fs::read_to_string(&self.path).is_ok_and(|text| same_token(text.trim(), self.token.reveal())) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Writes a file with mode 600 under a new name, and renames it to `path`. A link with that name is replaced and not
/// followed.
fn write_private(path: &Path, token: &Secret) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let written = create_private(&new).and_then(|mut file| writeln!(file, "{}", token.reveal()));
    let renamed = written.and_then(|()| std::fs::rename(&new, path));
    if renamed.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    renamed
}

fn create_private(path: &Path) -> io::Result<File> {
    // A leftover of a process with the same id.
    let _ = std::fs::remove_file(path);
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("trainyard-{name}-{}", std::process::id()))
    }

    #[test]
    fn tokens_are_long_and_differ() {
        let (a, b) = (random_token().unwrap(), random_token().unwrap());
        assert_eq!(a.reveal().len(), 64);
        assert!(a.reveal().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(a.reveal(), b.reveal());
        assert!(same_token(a.reveal(), a.reveal()) && !same_token(a.reveal(), b.reveal()));
        assert!(!same_token("", a.reveal()));
        assert_ne!(random_seed().unwrap(), random_seed().unwrap());
    }

    #[test]
    fn file_is_private_replaced_and_removed() {
        let root = folder("token");
        let path = root.join("tokens/serve-8675");
        let first = TokenFile::create(&path).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), first.token().reveal());
        let second = TokenFile::create(&path).unwrap();
        assert_ne!(first.token().reveal(), second.token().reveal());
        drop(first);
        assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), second.token().reveal(), "the later server's");
        drop(second);
        assert!(!path.exists());
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn link_at_the_path_is_replaced_and_not_followed() {
        let root = folder("token-link");
        std::fs::create_dir_all(&root).unwrap();
        let (path, target) = (root.join("serve"), root.join("target"));
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let file = TokenFile::create(&path).unwrap();
        assert!(!target.exists() && path.symlink_metadata().unwrap().is_file());
        drop(file);
        std::fs::remove_dir_all(root).unwrap();
    }
}
