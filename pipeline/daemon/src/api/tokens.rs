//! Reads access rights from a file of tokens.
//!
//! ```text
//! # role     name    token, or its SHA-256
//! operator   alice   sha256:5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5
//! viewer     pages   2f0a9c41d7e84b5f9a6c
//! ```
//!
//! A viewer may read, and an operator may also make changes. Requests contain a token as `Authorization: Bearer TOKEN`.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::{Digest, Error, Result, Secret};
use trainyard_http_server::same_digest;

/// Minimum characters of a token.
const SHORTEST: usize = 16;
const HASHED: &str = "sha256:";

/// Access level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Viewer,
    /// Reads and makes changes.
    Operator,
}

/// Name, role and token of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TokenHolder {
    role: Role,
    name: String,
    /// SHA-256 of the token, in hexadecimal.
    hash: Digest,
}

/// All tokens of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiTokens(Vec<TokenHolder>);

impl ApiTokens {
    /// Reads a file of tokens. Errors: invalid (an unreadable line, a token that is too short, a file that other users
    /// may read).
    pub fn read(path: &Path) -> Result<Self> {
        let mode = std::fs::metadata(path).map_err(|e| io_error(path, &e))?.mode();
        if mode & 0o077 != 0 {
            return Err(Error::invalid(format!("other users can read the tokens in {}", path.display()))
                .help(format!("run `chmod 600 {}`", path.display())));
        }
        let text = std::fs::read_to_string(path).map_err(|e| io_error(path, &e))?;
        let tokens = Self::parse(&text).map_err(|e| e.at(path.display()))?;
        if tokens.is_empty() {
            return Err(Error::invalid(format!("{} has no token", path.display())).help(LINE));
        }
        Ok(tokens)
    }
    /// Returns the token of one user, who may make changes.
    pub fn of_operator(name: &str, token: &Secret) -> Self {
        let hash = Digest::of(token.reveal().as_bytes());
        Self(vec![TokenHolder { role: Role::Operator, name: name.to_string(), hash }])
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Returns the role and name of a token's owner; `None` if no owner has this token. The comparison takes constant
    /// time.
    pub fn holder(&self, token: &str) -> Option<(Role, &str)> {
        let hash = Digest::of(token.as_bytes());
        let mut found = None;
        for holder in &self.0 {
            if same_digest(&holder.hash, &hash) {
                found = Some((holder.role, holder.name.as_str()));
            }
        }
        found
    }

    fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|(number, line)| holder(line).map_err(|e| e.at(format!("line {number}"))))
            .collect::<Result<_>>()
            .map(Self)
    }
}

const LINE: &str = "write lines of a role (viewer, operator), a name, and a token of 16 characters or more, or \
    `sha256:` and the SHA-256 of a token";

fn holder(line: &str) -> Result<TokenHolder> {
    // The line itself stays out of errors: it contains a secret.
    let wrong = |what: &str| Error::invalid(what).help(LINE);
    let words: Vec<&str> = line.split_whitespace().collect();
    let [role, name, token] = words.as_slice() else { return Err(wrong("the line is not a role, a name and a token")) };
    let role = match *role {
        "viewer" => Role::Viewer,
        "operator" => Role::Operator,
        _ => return Err(wrong("the role must be `viewer` or `operator`")),
    };
    let hash = match token.strip_prefix(HASHED) {
        Some(hash) => Digest::try_from(hash.to_lowercase()).map_err(|_| wrong("the token is not a SHA-256 digest"))?,
        None if token.len() < SHORTEST => return Err(wrong("the token is too short to be a secret")),
        None => Digest::of(token.as_bytes()),
    };
    Ok(TokenHolder { role, name: name.to_string(), hash })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn plain_and_hashed_tokens_are_accepted() {
        let hash = Digest::of(b"the-other-secret-token");
        let tokens =
            ApiTokens::parse(&format!("# who\n\noperator alice a-secret-of-mine-1\n viewer bob sha256:{hash}\n"))
                .unwrap();
        assert_eq!(tokens.holder("a-secret-of-mine-1"), Some((Role::Operator, "alice")));
        assert_eq!(tokens.holder("the-other-secret-token"), Some((Role::Viewer, "bob")));
        assert_eq!(tokens.holder("a-secret-of-mine-2"), None);
        assert_eq!(tokens.holder(hash.as_str()), None, "a hash opens nothing");
        assert_eq!(tokens.holder(""), None);
    }

    #[test]
    fn token_of_an_operator_is_the_only_one() {
        let tokens = ApiTokens::of_operator("local", &Secret::new("a-secret-of-mine-1"));
        assert_eq!(tokens.holder("a-secret-of-mine-1"), Some((Role::Operator, "local")));
        assert_eq!((tokens.holder("a-secret-of-mine-2"), tokens.holder(""), tokens.is_empty()), (None, None, false));
    }

    #[test]
    fn errors_do_not_contain_the_secret() {
        for (text, part) in [
            ("operator alice short", "too short"),
            ("\nadmin alice a-secret-of-mine-1", "line 2"),
            ("operator a-secret-of-mine-1", "not a role"),
            ("viewer x sha256:abc", "not a SHA-256"),
        ] {
            let error = ApiTokens::parse(text).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("a-secret"), "{error}");
        }
    }

    #[test]
    fn token_file_readable_by_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, "operator alice a-secret-of-mine-1\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(ApiTokens::read(&path).unwrap_err().message.contains("other users can read"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(!ApiTokens::read(&path).unwrap().is_empty());
        std::fs::write(&path, "# empty\n").unwrap();
        assert!(ApiTokens::read(&path).unwrap_err().message.contains("no token"));
    }
}
